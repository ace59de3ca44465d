//! Requests, responses and streams: decoded, folded, projected.

use crate::case::{Case, Kind, family_of};
use crate::evidence::Evidence;
use crate::journal;
use crate::pieces;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_format::resource::{Issuer, ProviderDataScope};
use throughline_format::{ProtocolFamily, UnifiedError, UnifiedId, UnifiedLossReport, UnifiedRequirement, fingerprint};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::projection::stream_loss;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, PrivateState, SideResource, codec_of, requirement};

/// A family with its codec.
#[derive(Clone)]
pub(crate) struct Protocol {
    pub(crate) family: ProtocolFamily,
    pub(crate) codec: Arc<dyn Codec>,
}

impl Protocol {
    /// The protocol that a case names; `Err` says that there is no codec.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let family = family_of(name)?;
        let codec = codec_of(&family).ok_or_else(|| format!("no codec for {name}"))?;
        Ok(Self { family, codec })
    }
}

/// Private state of a stand-alone conversion: what the payload itself held.
pub(crate) struct Held(BTreeMap<UnifiedId, bytes::Bytes>, BTreeMap<String, bytes::Bytes>);

impl Held {
    /// Keeps what `may_see` lets through; a synthetic payload goes to nobody.
    pub(crate) fn of<'a>(resources: impl Iterator<Item = &'a SideResource>, may_see: impl Fn(&SideResource) -> bool) -> Self {
        let mut held = Self(BTreeMap::new(), BTreeMap::new());
        for resource in resources {
            let is_visible = resource.scope == ProviderDataScope::PortableAnnotation || may_see(resource);
            if is_visible && resource.issuer != Issuer::Synthetic {
                let payload = bytes::Bytes::from(resource.payload.clone());
                if resource.subject.is_none() {
                    held.1.insert(resource.schema.clone(), payload.clone());
                }
                held.0.insert(resource.resource_id.clone(), payload);
            }
        }
        held
    }
}

impl PrivateState for Held {
    fn payload(&self, resource_id: &UnifiedId) -> Option<bytes::Bytes> {
        self.0.get(resource_id).cloned()
    }

    fn root_payload(&self, schema: &str) -> Option<bytes::Bytes> {
        self.1.get(schema).cloned()
    }
}

/// Everything of a conversion but the target.
struct Job<'a> {
    kind: Kind,
    from: Protocol,
    body: Vec<u8>,
    chunks: Vec<Vec<u8>>,
    input: &'a Value,
}

/// The evidence of a request, response or stream.
pub(crate) fn evidence(case: &Case) -> Result<Evidence<'_>, String> {
    let from = Protocol::named(case.protocol_in.as_deref().ok_or("the case names no protocol of its input")?)?;
    // Without a codec for the target the fold can still be looked at.
    let (to, unprojected) = match case.protocol_out.as_deref().map(Protocol::named).transpose() {
        Ok(to) => (to, None),
        Err(why) => (None, Some(why)),
    };
    let is_stream = case.kind == Kind::Stream;
    let chunks = if is_stream { pieces::chunks(&case.input)? } else { Vec::new() };
    let body = if is_stream {
        chunks.concat()
    } else {
        pieces::body(&case.input)?.into_bytes()
    };
    let job = Arc::new(Job {
        kind: case.kind,
        from: from.clone(),
        body,
        chunks,
        input: &case.input,
    });
    let began = Instant::now();
    let mut evidence = job.run(to.as_ref())?;
    evidence.unprojected = unprojected;
    if let Some(limit) = case.input.get("time_limit_ms").and_then(Value::as_u64)
        && began.elapsed() > Duration::from_millis(limit)
    {
        evidence.overtime = Some(format!("it took {} ms; the case allows {limit}", began.elapsed().as_millis()));
    }
    if evidence.error.is_some() {
        return Ok(evidence);
    }
    if let Some(to) = to.clone() {
        let again = job.clone();
        evidence.repeat = Some(Box::new(move || Ok(again.run(Some(&to))?.output)));
    }
    if let Some(second) = case.input.get("also_project_to").and_then(Value::as_str) {
        let again = job.clone();
        evidence.second = Some(Box::new(move || again.run(Some(&Protocol::named(second)?))));
    }
    if is_stream {
        let again = job.clone();
        evidence.chunkings = Some(Box::new(move || again.chunkings()));
    }
    if case.kind != Kind::Request {
        let again = job.clone();
        evidence.replay = Some(Box::new(move || journal::replayed(&again.folded()?)));
        let again = job.clone();
        evidence.roundtrip = Some(Box::new(move || journal::stored_and_loaded(&again.folded()?)));
        evidence.next_request = Some(Box::new(move || job.next_request()));
    }
    Ok(evidence)
}

impl Job<'_> {
    fn context(&self) -> DecodeContext {
        let word = |key: &str| self.input.get(key).and_then(Value::as_str).map(str::to_owned);
        DecodeContext {
            requested_model: word("model"),
            dialect: word("dialect"),
            ..DecodeContext::offline()
        }
    }

    fn encode_context(&self, to: &Protocol, resources: &[SideResource]) -> Result<EncodeContext, String> {
        let same = self.from.family == to.family;
        let private = Held::of(resources.iter(), |_| same);
        Ok(EncodeContext {
            private: Arc::new(private),
            ..EncodeContext::plain(capabilities(to, self.input)?)
        })
    }

    fn run<'a>(&self, to: Option<&Protocol>) -> Result<Evidence<'a>, String> {
        if self.kind == Kind::Request {
            self.request(to)
        } else {
            self.answer(to)
        }
    }

    fn request<'a>(&self, to: Option<&Protocol>) -> Result<Evidence<'a>, String> {
        let mut decoded = match self.from.codec.decode_request(&self.body, &self.context()) {
            Ok(decoded) => decoded,
            Err(error) => return Ok(Evidence::refused(error)),
        };
        for (pointer, strength) in self.input.get("requirements").and_then(Value::as_object).into_iter().flatten() {
            let strength: UnifiedRequirement = serde_json::from_value(strength.clone()).map_err(|e| format!("requirements: {e}"))?;
            if let Err(error) = requirement::set_by_wire_pointer(&mut decoded.unified, &self.from.family, pointer, strength) {
                return Err(format!("requirements at {pointer}: {error}"));
            }
        }
        let mut evidence = Evidence {
            unified: Some(json_of(&decoded.unified)?),
            losses: vec![decoded.loss],
            ..Evidence::default()
        };
        if let Some(to) = to {
            let mut context = self.encode_context(to, &decoded.resources)?;
            context.stream = decoded.stream;
            match to.codec.encode_request(&decoded.unified, &context) {
                Ok(encoded) => project(&mut evidence, &encoded.body, encoded.loss)?,
                Err(error) => evidence.error = Some(error),
            }
        }
        Ok(evidence)
    }

    /// The fold of the response or stream; `Err` when the product refuses it or its decoder breaks the grammar.
    fn fold(&self) -> Result<Result<OfflineFold, UnifiedError>, String> {
        if self.kind == Kind::Stream {
            return fold_stream(&self.from, &self.context(), self.chunks.iter().map(Vec::as_slice)).map(Ok);
        }
        let batch = match self.from.codec.decode_response(&self.body, &self.context()) {
            Ok(batch) => batch,
            Err(error) => return Ok(Err(error)),
        };
        let mut fold = OfflineFold::new();
        fold.push(batch).map_err(|e| format!("the decoder broke the event grammar: {e}"))?;
        Ok(Ok(fold))
    }

    fn folded(&self) -> Result<OfflineFold, String> {
        self.fold()?.map_err(|e| e.to_string())
    }

    fn answer<'a>(&self, to: Option<&Protocol>) -> Result<Evidence<'a>, String> {
        let folded = match self.fold()? {
            Ok(folded) => folded,
            Err(error) => return Ok(Evidence::refused(error)),
        };
        let result = folded.fold.result();
        let mut evidence = Evidence {
            unified: Some(json_of(&result)?),
            losses: result.loss.clone().into_iter().collect(),
            terminal_events: Some(folded.events.iter().filter(|e| e.body.is_terminal()).count()),
            ..Evidence::default()
        };
        let Some(to) = to else { return Ok(evidence) };
        let context = self.encode_context(to, &folded.resources)?;
        if self.kind == Kind::Stream {
            let mut encoder = to.codec.stream_encoder(&context);
            let frames = folded.events.iter().flat_map(|event| encoder.push(event)).map(|frame| frame.data);
            let parsed = frames
                .filter(|data| data.trim() != "[DONE]")
                .map(|data| serde_json::from_str(&data));
            let parsed: Result<Vec<Value>, _> = parsed.collect();
            evidence.output = Some(Value::Array(parsed.map_err(|e| format!("the encoder wrote no JSON: {e}"))?));
            let loss = stream_loss(to.codec.as_ref(), &result, &context, encoder.as_ref());
            evidence.losses.push(loss.map_err(|e| e.to_string())?);
        } else {
            match to.codec.encode_response(&result, &context) {
                Ok(encoded) => project(&mut evidence, &encoded.body, encoded.loss)?,
                Err(error) => evidence.error = Some(error),
            }
        }
        Ok(evidence)
    }

    /// Fingerprints for the cuts as given, for one chunk, for single bytes and for two odd sizes.
    fn chunkings(&self) -> Result<BTreeMap<String, String>, String> {
        let print = |fold: &OfflineFold| fingerprint(&fold.fold.result()).map(|f| f.to_hex()).map_err(|e| e.to_string());
        let mut found = BTreeMap::new();
        let given = fold_stream(&self.from, &self.context(), self.chunks.iter().map(Vec::as_slice))?;
        found.insert("as given".to_owned(), print(&given)?);
        for size in [self.body.len().max(1), 1, 7, 64] {
            let fold = fold_stream(&self.from, &self.context(), self.body.chunks(size))?;
            found.insert(format!("{size} bytes"), print(&fold)?);
        }
        Ok(found)
    }

    /// The request that follows this answer at its own provider: a question, the answer, and `ok` for each open call.
    fn next_request<'a>(&self) -> Result<Evidence<'a>, String> {
        let folded = self.folded()?;
        let mut items = vec![journal::user_message(&UnifiedId::offline_operation(), "go")?];
        items.extend(folded.fold.result().output);
        journal::answer_open_calls(&mut items)?;
        let request = journal::request(items, "m", &[])?;
        let context = self.encode_context(&self.from, &folded.resources)?;
        let mut evidence = Evidence::default();
        match self.from.codec.encode_request(&request, &context) {
            Ok(encoded) => project(&mut evidence, &encoded.body, encoded.loss)?,
            Err(error) => evidence.error = Some(error),
        }
        Ok(evidence)
    }
}

/// The capabilities of a target with what the case says of them.
pub(crate) fn capabilities(to: &Protocol, input: &Value) -> Result<Capabilities, String> {
    let mut capabilities = Capabilities::of(to.codec.capabilities());
    for (key, value) in input
        .pointer("/target/capabilities")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        capabilities.set(key, value).map_err(|e| e.to_string())?;
    }
    Ok(capabilities)
}

/// Takes a projection into the evidence. Nothing may be sent when a required intent is lost.
pub(crate) fn project(evidence: &mut Evidence<'_>, body: &str, loss: UnifiedLossReport) -> Result<(), String> {
    if !loss.is_unsupported() {
        evidence.output = Some(serde_json::from_str(body).map_err(|e| format!("the encoder wrote no JSON: {e}"))?);
    }
    evidence.losses.push(loss);
    Ok(())
}

/// A record as its JSON.
pub(crate) fn json_of<T: serde::Serialize>(record: &T) -> Result<Value, String> {
    let text = serde_json::to_string(record).map_err(|e| format!("the record has no JSON: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("the record's JSON: {e}"))
}

/// Decodes a stream in these pieces and folds it.
pub(crate) fn fold_stream<'a>(
    from: &Protocol,
    context: &DecodeContext,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Result<OfflineFold, String> {
    let broken = |e: throughline_format::fold::FoldError| format!("the decoder broke the event grammar: {e}");
    let (mut decoder, mut fold) = (from.codec.stream_decoder(context), OfflineFold::new());
    for piece in pieces {
        fold.push(decoder.push(piece)).map_err(broken)?;
    }
    fold.push(decoder.finish()).map_err(broken)?;
    Ok(fold)
}
