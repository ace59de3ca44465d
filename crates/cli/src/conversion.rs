//! One conversion: a payload in, the Unified record, its side resources, the losses and the projection out.
//!
//! Reproducible: no clock, no randomness, fixed IDs. `convert` and `convert --batch` are two ways to call [`Conversion::run`].

use crate::error::{CliError, EXIT_UNSUPPORTED};
use crate::private_state::OfflinePrivateState;
use crate::protocol::Protocol;
use crate::report::{ConversionReport, Output, ResourceEntry, UnifiedRecord, WireEvent};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use throughline_format::{UnifiedLossEntry, UnifiedLossReport, UnifiedRequirement, UnifiedResourceOwner};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::projection::stream_loss;
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, Encoded, SideResource, bookkeeping, requirement};

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request body.
    Request,
    /// An unstreamed response body.
    Response,
    /// A stream.
    Stream,
}

impl Kind {
    /// The kind that a word names.
    ///
    /// # Errors
    /// `invalid-request.usage` for another word.
    pub fn named(word: &str) -> Result<Self, CliError> {
        match word {
            "request" => Ok(Self::Request),
            "response" => Ok(Self::Response),
            "stream" => Ok(Self::Stream),
            _ => Err(CliError::usage("kind: expected request, response or stream")),
        }
    }
}

/// Everything of a conversion but the payload. Member names are those of a batch line.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// Strengths by pointer into the payload.
    pub requirements: BTreeMap<String, UnifiedRequirement>,
    /// Overrides of the target's capability table.
    pub capabilities: serde_json::Map<String, serde_json::Value>,
    /// Whose private state the payload holds.
    pub source_owner: Option<UnifiedResourceOwner>,
    /// To whom the projection goes.
    pub target_owner: Option<UnifiedResourceOwner>,
    /// Model of the payload, where its URL carries it.
    pub model: Option<String>,
    /// Model of the projection.
    pub target_model: Option<String>,
    /// Dialect of the payload.
    pub dialect: Option<String>,
    /// Dialect of the projection.
    pub target_dialect: Option<String>,
    /// Major of the client's SDK that the projection is for.
    pub client_version: Option<String>,
    /// The stream is one JSON chunk a line.
    pub lines: bool,
}

/// One conversion.
#[derive(Debug)]
pub struct Conversion {
    kind: Kind,
    from: Protocol,
    to: Option<Protocol>,
    options: Options,
}

impl Conversion {
    /// Checks names and options before any payload is looked at.
    ///
    /// # Errors
    /// `invalid-request.usage`, `invalid-request.unknown-protocol`, `unsupported.direction`.
    pub fn new(kind: &str, from: &str, to: Option<&str>, options: Options) -> Result<Self, CliError> {
        let kind = Kind::named(kind).map_err(|e| e.at("/kind"))?;
        let from = Protocol::named(from).map_err(|e| e.at("/from"))?;
        let to = to.map(|to| Protocol::named(to).map_err(|e| e.at("/to"))).transpose()?;
        for (name, owner, protocol) in [
            ("sourceOwner", &options.source_owner, Some(&from)),
            ("targetOwner", &options.target_owner, to.as_ref()),
        ] {
            if let (Some(owner), Some(protocol)) = (owner, protocol)
                && owner.profile.family != protocol.family
            {
                let message = format!(
                    "{name}: its profile is {}, but the protocol is {}",
                    owner.profile.family, protocol.family
                );
                return Err(CliError::usage(message).at(format!("/{name}/profile/family")));
            }
        }
        if let Some(version) = &options.client_version {
            let known = throughline_protocols::vercel_uimessage::Major::named(version).is_some();
            let is_target = to
                .as_ref()
                .is_some_and(|to| to.family == throughline_format::ProtocolFamily::VercelUiMessage);
            if !known || !is_target {
                return Err(CliError::usage("clientVersion: expected 5, 6 or 7, for vercel-uimessage").at("/clientVersion"));
            }
        }
        from.check_dialect("dialect", options.dialect.as_deref())?;
        if let Some(to) = &to {
            to.check_dialect("targetDialect", options.target_dialect.as_deref())?;
        }
        if kind != Kind::Request && !options.requirements.is_empty() {
            return Err(CliError::usage("requirements: only a request has them").at("/requirements"));
        }
        Ok(Self { kind, from, to, options })
    }

    /// Converts a payload.
    ///
    /// # Errors
    /// `invalid-request.*` with the place in the payload; `internal.*` for a fault of this program.
    pub fn run(&self, body: &[u8]) -> Result<ConversionReport, CliError> {
        if self.kind != Kind::Stream {
            crate::input::check_utf8(body)?;
        }
        match self.kind {
            Kind::Request => self.request(body),
            Kind::Response => {
                let batch = self.from.codec.decode_response(body, &self.decode_context())?;
                let mut fold = OfflineFold::new();
                fold.push(batch).map_err(|e| fold_fault(&e))?;
                self.result(fold)
            }
            Kind::Stream => {
                let fold = fold_stream(&self.from, &self.decode_context(), &stream_bytes(body, self.options.lines), None)?;
                self.result(fold)
            }
        }
    }

    fn request(&self, body: &[u8]) -> Result<ConversionReport, CliError> {
        let mut decoded = self.from.codec.decode_request(body, &self.decode_context())?;
        for (pointer, strength) in &self.options.requirements {
            if !names_something(body, pointer) {
                return Err(CliError::usage("requirements: the payload has nothing at this pointer").at(pointer));
            }
            requirement::set_by_wire_pointer(&mut decoded.unified, &self.from.family, pointer, *strength)?;
        }
        let projection = match &self.to {
            None => None,
            Some(to) => {
                let mut context = self.encode_context(to, &decoded.resources)?;
                context.stream = decoded.stream;
                Some(body_output(to.codec.encode_request(&decoded.unified, &context)?)?)
            }
        };
        let remarks = self.to.as_ref().map(|_| bookkeeping::remarks(&decoded.unified)).unwrap_or_default();
        let record = UnifiedRecord::Request(Box::new(decoded.unified));
        Ok(report(record, &decoded.resources, decoded.loss, projection, remarks))
    }

    /// Second half of a response and of a stream.
    fn result(&self, decoded: OfflineFold) -> Result<ConversionReport, CliError> {
        let result = decoded.fold.result();
        let projection = match &self.to {
            None => None,
            Some(to) => {
                let context = self.encode_context(to, &decoded.resources)?;
                Some(if self.kind == Kind::Stream {
                    let mut encoder = to.codec.stream_encoder(&context);
                    let frames = decoded.events.iter().flat_map(|event| encoder.push(event));
                    let events = frames
                        .map(|frame| WireEvent {
                            event: frame.event,
                            data: frame.data,
                        })
                        .collect();
                    let loss = stream_loss(to.codec.as_ref(), &result, &context, encoder.as_ref())?;
                    (Output::Events(events), loss)
                } else {
                    body_output(to.codec.encode_response(&result, &context)?)?
                })
            }
        };
        let loss = result.loss.clone().unwrap_or_default();
        let remarks = self.to.as_ref().map(|_| bookkeeping::remarks(&result)).unwrap_or_default();
        Ok(report(
            UnifiedRecord::Result(Box::new(result)),
            &decoded.resources,
            loss,
            projection,
            remarks,
        ))
    }

    fn decode_context(&self) -> DecodeContext {
        decode_context(self.options.model.as_deref(), self.options.dialect.as_deref())
    }

    fn encode_context(&self, to: &Protocol, resources: &[SideResource]) -> Result<EncodeContext, CliError> {
        let mut capabilities = Capabilities::of(to.codec.capabilities());
        for (key, value) in &self.options.capabilities {
            capabilities.set(key, value).map_err(|e| {
                let error = CliError::from(e);
                let place = format!("/capabilities{}", error.path.as_deref().unwrap_or_default());
                error.at(place)
            })?;
        }
        let same_family = self.from.family == to.family;
        let private = OfflinePrivateState::new(resources, |resource| {
            match (&self.options.source_owner, &self.options.target_owner) {
                (Some(source), Some(target)) => source.is_compatible(target, &resource.resource_type),
                (None, None) => same_family,
                // One owner alone tells nothing about the other, and state of an unknown owner goes nowhere.
                _ => false,
            }
        });
        Ok(EncodeContext {
            target_model: self.options.target_model.clone(),
            dialect: self
                .options
                .target_dialect
                .clone()
                .or_else(|| self.options.client_version.clone())
                .or_else(|| self.options.dialect.clone().filter(|_| same_family)),
            private: Arc::new(private),
            ..EncodeContext::plain(capabilities)
        })
    }
}

/// Whether a JSON Pointer (RFC 6901) names a value of the body. Values on the way are read as text, so that nothing is copied.
fn names_something(body: &[u8], pointer: &str) -> bool {
    let Ok(mut at) = serde_json::from_slice::<&RawValue>(body) else {
        return false;
    };
    let mut tokens = pointer.split('/');
    if tokens.next() != Some("") {
        return false;
    }
    for token in tokens {
        let inner = if at.get().starts_with('[') {
            let elements: Vec<&RawValue> = serde_json::from_str(at.get()).unwrap_or_default();
            token.parse().ok().and_then(|index: usize| elements.get(index).copied())
        } else {
            let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(at.get()).unwrap_or_default();
            members
                .get(throughline_format::json::unescape_pointer_token(token).as_ref())
                .copied()
        };
        match inner {
            Some(inner) => at = inner,
            None => return false,
        }
    }
    true
}

/// The context of a stand-alone decode with what the command line adds.
pub fn decode_context(model: Option<&str>, dialect: Option<&str>) -> DecodeContext {
    DecodeContext {
        requested_model: model.map(str::to_owned),
        dialect: dialect.map(str::to_owned),
        ..DecodeContext::offline()
    }
}

/// Decodes a stream in pieces of `split` bytes (whole by default) and folds it.
///
/// # Errors
/// `internal.fold` when the decoder broke the event grammar; a broken stream is no error but a failed result.
pub fn fold_stream(from: &Protocol, context: &DecodeContext, bytes: &[u8], split: Option<NonZeroUsize>) -> Result<OfflineFold, CliError> {
    let (mut decoder, mut fold) = (from.codec.stream_decoder(context), OfflineFold::new());
    for piece in bytes.chunks(split.map_or(bytes.len().max(1), NonZeroUsize::get)) {
        fold.push(decoder.push(piece)).map_err(|e| fold_fault(&e))?;
    }
    fold.push(decoder.finish()).map_err(|e| fold_fault(&e))?;
    Ok(fold)
}

/// The bytes of a stream as SSE: as they are, or every line as the data of one event.
pub fn stream_bytes(body: &[u8], lines: bool) -> std::borrow::Cow<'_, [u8]> {
    if !lines {
        return body.into();
    }
    let mut sse = Vec::with_capacity(body.len() + body.len() / 16);
    for line in body.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        sse.extend_from_slice(b"data: ");
        sse.extend_from_slice(line);
        sse.extend_from_slice(b"\n\n");
    }
    sse.into()
}

fn fold_fault(error: &throughline_format::fold::FoldError) -> CliError {
    CliError::internal("fold", format!("the decoder broke the event grammar: {error}"))
}

fn body_output(encoded: Encoded) -> Result<(Output, UnifiedLossReport), CliError> {
    let body = RawValue::from_string(encoded.body).map_err(|e| CliError::internal("encode", format!("the encoder wrote no JSON: {e}")))?;
    Ok((Output::Body(body), encoded.loss))
}

fn report(
    unified: UnifiedRecord,
    resources: &[SideResource],
    decode_loss: UnifiedLossReport,
    projection: Option<(Output, UnifiedLossReport)>,
    remarks: Vec<UnifiedLossEntry>,
) -> ConversionReport {
    let resources = resources.iter().map(ResourceEntry::of).collect();
    let mut report = ConversionReport {
        unified,
        resources,
        decode_loss,
        output: None,
        loss: None,
        exit: 0,
    };
    if let Some((output, mut loss)) = projection {
        for remark in remarks {
            loss.note(remark);
        }
        if loss.is_unsupported() {
            report.exit = EXIT_UNSUPPORTED;
        } else {
            report.output = Some(output);
        }
        report.loss = Some(loss);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::names_something;

    #[test]
    fn a_pointer_names_something_or_nothing() {
        let body = br#" {"seed": 1e999, "tools": [{"function": {"strict": null}}], "a/b": {"c~d": 0}} "#;
        for there in ["", "/seed", "/tools/0", "/tools/0/function/strict", "/a~1b/c~0d"] {
            assert!(names_something(body, there), "{there}");
        }
        for absent in [
            "seed",
            "/",
            "/max_tokens",
            "/tools/1",
            "/tools/-",
            "/tools/0/strict",
            "/seed/x",
            "/tools/0/function/strict/x",
        ] {
            assert!(!names_something(body, absent), "{absent}");
        }
    }
}
