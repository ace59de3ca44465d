//! parse(serialise(x)) = x for every record, and samples that leave nothing out.

use crate::support::events::events;
use crate::support::fields::fields_of;
use crate::support::parts::{annotations, items, parts, sources};
use crate::support::{is_map, is_opaque, json_of, parse, pointers, records};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use throughline_format::citation::UnifiedTextAnnotation;
use throughline_format::intent::OutputFormat;
use throughline_format::json::{DecodeError, decode_str};
use throughline_format::media::UnifiedDataSource;
use throughline_format::shape::{Shape, Shaped};
use throughline_format::{
    UnifiedContentPart, UnifiedEventV2, UnifiedExportV2, UnifiedItem, UnifiedItemBody, UnifiedItemRevision, UnifiedLease, UnifiedOperation,
    UnifiedProviderCheckpoint, UnifiedRequestV2, UnifiedResultV2, UnifiedToolChoice, UnifiedToolDefinition,
};

/// A sample with the type that it is of.
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) value: Value,
    /// Decodes text as that type; the answer is what the decoded record serialises to.
    pub(crate) decode: fn(&str) -> Result<Value, DecodeError>,
    /// Decodes text as that type and no more.
    pub(crate) read: fn(&str) -> Result<(), DecodeError>,
    /// The description of that type.
    pub(crate) shape: Shape,
}

impl Sample {
    /// Pointers of its values, without those that another sample has too.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let kind = self.value["kind"].as_str().unwrap_or_default();
        let inner: &[&str] = match self.name.split(' ').next().unwrap_or_default() {
            "event" => &["item", "part", "usage", "annotation", "status", "error", "model"],
            "item" if kind == "message" => &["parts"],
            "item" => &[
                "parts",
                "output",
                "error",
                "media",
                "provenance",
                "cache",
                "providerData",
                "privateLinkage",
                "container",
            ],
            "part" if kind == "text" || kind == "image" => &["annotations"],
            "part" => &["media", "providerData", "parts"],
            _ => &[],
        };
        let is_inner = |pointer: &str| {
            let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
            tokens.iter().rev().skip(1).any(|token| inner.contains(token))
        };
        pointers(&self.value).into_iter().filter(|p| !is_inner(p)).collect()
    }
}

fn through<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(text: &str) -> Result<Value, DecodeError> {
    let record: T = decode_str(text)?;
    let written = serde_json::to_string(&record).unwrap();
    let again: T = decode_str(&written).unwrap_or_else(|e| panic!("{e} in what was written: {written}"));
    assert_eq!(again, record, "parse(serialise(x)) = x");
    assert_eq!(serde_json::to_string(&again).unwrap(), written, "serialisation is stable");
    Ok(json_of(&record))
}

fn sample<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug + Shaped>(name: impl Into<String>, value: Value) -> Sample {
    Sample {
        name: name.into(),
        value,
        decode: through::<T>,
        read: |text| decode_str::<T>(text).map(drop),
        shape: T::shape(),
    }
}

/// Samples that together hold every record; each is small enough to be taken apart.
pub(crate) fn samples() -> Vec<Sample> {
    let without_items = |mut value: Value| {
        for pointer in ["/conversation/items", "/output", "/items", "/alternatives/0/output"] {
            if let Some(list @ Value::Array(_)) = value.pointer_mut(pointer) {
                *list = Value::Array(Vec::new());
            }
        }
        value
    };
    let mut request = without_items(records::request());
    request["tools"] = Value::Array(Vec::new());
    let mut out = vec![
        sample::<UnifiedRequestV2>("request", request),
        sample::<UnifiedResultV2>("result", without_items(records::result())),
        sample::<UnifiedOperation>("operation", records::operation()),
        sample::<UnifiedExportV2>("export", without_items(records::export())),
        sample::<UnifiedItemRevision>("revision", records::revision()),
        sample::<UnifiedProviderCheckpoint>("checkpoint", records::checkpoint()),
        sample::<UnifiedLease>("lease", records::lease()),
        sample::<throughline_format::resource::UnmappedPayload>("unmapped payload", records::unmapped()),
    ];
    out.extend(records::tools().into_iter().map(|v| sample::<UnifiedToolDefinition>("tool", v)));
    out.extend(
        records::choices()
            .into_iter()
            .map(|v| sample::<UnifiedToolChoice>(format!("tool choice {}", v["kind"]), v)),
    );
    out.extend(
        records::formats()
            .into_iter()
            .map(|v| sample::<OutputFormat>(format!("format {}", v["kind"]), v)),
    );
    out.extend(
        sources()
            .into_iter()
            .map(|v| sample::<UnifiedDataSource>(format!("source {}", v["kind"]), v)),
    );
    out.extend(
        annotations()
            .as_array()
            .unwrap()
            .iter()
            .map(|v| sample::<UnifiedTextAnnotation>(format!("annotation {}", v["kind"]), v.clone())),
    );
    out.extend(
        parts()
            .into_iter()
            .map(|v| sample::<UnifiedContentPart>(format!("part {}", v["kind"]), v)),
    );
    out.extend(
        events()
            .into_iter()
            .map(|v| sample::<UnifiedEventV2>(format!("event {}", v["kind"]), v)),
    );
    for mut item in items() {
        if item["kind"] == "message" {
            // Its parts are samples of their own.
            item["parts"].as_array_mut().unwrap().truncate(1);
        }
        out.push(sample::<UnifiedItem>(format!("item {}", item["kind"]), item));
    }
    out
}

#[test]
fn every_sample_comes_back_as_it_was() {
    throughline_format::clause!("ROOT-01", "ROOT-02");
    for sample in samples() {
        let written = (sample.decode)(&sample.value.to_string()).unwrap_or_else(|e| panic!("{}: {e}", sample.name));
        assert_eq!(written, sample.value, "{}", sample.name);
    }
    for (value, decode) in [
        (records::request(), through::<UnifiedRequestV2> as fn(&str) -> _),
        (records::result(), through::<UnifiedResultV2>),
        (records::export(), through::<UnifiedExportV2>),
    ] {
        assert_eq!(decode(&value.to_string()).unwrap(), value);
    }
}

#[test]
fn there_is_a_sample_of_every_kind() {
    throughline_format::clause!("ITEM-02", "EVT-02");
    let kinds = |values: &[Value]| {
        values
            .iter()
            .map(|v| v["kind"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    let words = |known: &[&str]| known.iter().map(|w| (*w).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(kinds(&items()), words(UnifiedItemBody::KINDS));
    assert_eq!(UnifiedItemBody::KINDS.len(), 20);
    assert_eq!(kinds(&parts()), words(throughline_format::PartBody::KINDS));
    assert_eq!(throughline_format::PartBody::KINDS.len(), 13);
    assert_eq!(kinds(&events()), words(throughline_format::EventBody::KINDS));
    assert_eq!(kinds(&sources()), words(UnifiedDataSource::KINDS));
    assert_eq!(kinds(&records::formats()), words(OutputFormat::KINDS));
    for (value, kind) in items().iter().map(|v| (v, v["kind"].as_str().unwrap())) {
        let item: UnifiedItem = parse(value);
        assert_eq!(item.body.kind(), kind);
    }
}

/// Every object of every sample by the names of its members; opaque values and free maps apart.
fn shapes() -> Vec<BTreeSet<String>> {
    fn walk(value: &Value, out: &mut Vec<BTreeSet<String>>) {
        match value {
            Value::Object(members) if !is_opaque(value) => {
                if !is_map(value) {
                    out.push(members.keys().cloned().collect());
                }
                members.values().for_each(|v| walk(v, out));
            }
            Value::Array(list) => list.iter().for_each(|v| walk(v, out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    for sample in samples() {
        walk(&sample.value, &mut out);
    }
    out
}

macro_rules! records {
    ($($module:ident::$name:ident $(<$generic:ty>)?,)+) => {
        /// Every record of the crate with its members.
        pub(crate) fn all_records() -> Vec<(&'static str, BTreeSet<String>)> {
            vec![$((stringify!($name), fields_of::<throughline_format::$module::$name$(<$generic>)?>()),)+]
        }
    };
}
records! {
    cache::CacheBreakpoint,
    cache::UnifiedCacheIntent,
    cache::UnifiedCacheDirective,
    citation::UnifiedSpan,
    citation::UnifiedSource,
    citation::Support,
    citation::UnifiedCitation,
    citation::FilePathAnnotation,
    citation::SpeechAnnotation,
    conversation::UnifiedMissingRange,
    conversation::UnifiedConversationInput,
    conversation::PortabilityReason,
    conversation::UnifiedPortabilityDecision,
    conversation::UnifiedConversation,
    conversation::UnifiedBranch,
    conversation::UnifiedArtifact,
    conversation::UnifiedLease,
    error::UnifiedError,
    event::UnifiedEventBase,
    event::OperationCreated,
    event::OperationChanged,
    event::OperationCompleted,
    event::ErrorEvent,
    event::ResponseStarted,
    event::ResponseMetadata,
    event::ItemStarted,
    event::ItemCompleted,
    event::PartStarted,
    event::PartCompleted,
    event::MediaDelta,
    event::OutputDelta,
    event::FieldDelta,
    event::ItemDeltaEvent,
    event::TextDelta,
    event::SignatureReady,
    event::ArgumentsDelta,
    event::ArgumentsReady,
    event::ToolLifecycleEvent,
    event::CitationReady,
    event::PartReady,
    event::UsageUpdate,
    event::CheckpointReady,
    event::CheckpointInvalidated,
    event::Warning,
    event::LossUpdate,
    event::Heartbeat,
    event::StreamCompleted,
    export::PrivateResourceEntry,
    export::UnifiedExportV2,
    intent::UnifiedIntent<bool>,
    intent::UnifiedModelIntent,
    intent::ReasoningIntent,
    intent::LogprobsIntent,
    intent::PredictionIntent,
    intent::PrefillIntent,
    intent::SafetySetting,
    intent::SpeechVoice,
    intent::SpeechIntent,
    intent::ImageIntent,
    intent::VideoIntent,
    intent::MediaIntent,
    intent::UnifiedGenerationIntent,
    intent::Nothing,
    intent::JsonSchemaFormat,
    intent::GrammarFormat,
    intent::MediaFormat,
    intent::UnifiedOutputIntent,
    item::UnifiedItemBase,
    item::MessageItem,
    item::ReasoningItem,
    item::CallerRef,
    item::ToolCallItem,
    item::ToolResultItem,
    item::ServerToolResultItem,
    item::ApprovalReason,
    item::ApprovalRequestItem,
    item::ApprovalResponseItem,
    item::ComputerActionItem,
    item::ComputerActionResultItem,
    item::CodeExecutionItem,
    item::CodeExecutionResultItem,
    item::FoundItem,
    item::ArtifactItem,
    item::ItemTarget,
    item::ResourceTarget,
    item::UrlTarget,
    item::ReferenceItem,
    item::CoveredRange,
    item::CompactionSummaryItem,
    item::ProviderSwitchItem,
    item::InterruptionItem,
    item::ErrorItem,
    item::RevisionChange,
    item::UnifiedItemRevision,
    loss::UnifiedLossEntry,
    loss::UnifiedLossReport,
    media::InlineSource,
    media::UrlSource,
    media::ArtifactSource,
    media::ResourceSource,
    media::PageRange,
    media::IndexRange,
    media::TimeRange,
    media::TranscriptWord,
    media::Transcript,
    media::MediaConstraint,
    media::TokenResolution,
    media::UnifiedMediaMetadata,
    metadata::UnifiedSemanticMetadata,
    operation::PollingState,
    operation::WebhookStatus,
    operation::CleanupLease,
    operation::UnifiedOperation,
    operation::UnifiedProviderCheckpoint,
    part::UnifiedPartBase,
    part::TopLogprob,
    part::UnifiedTokenLogprob,
    part::TextPart,
    part::ReasoningPrivateState,
    part::ReasoningPart,
    part::RefusalPart,
    part::MediaPart,
    part::JsonPart,
    part::GroundingSourcePart,
    part::ArtifactReferencePart,
    profile::UnifiedProtocolProfile,
    provenance::UnifiedAttribution,
    provenance::UnifiedItemProvenance,
    provenance::UnifiedAttempt,
    provenance::UnifiedResponseProvenance,
    provenance::ImportSource,
    provenance::UnifiedSourceProvenance,
    request::BackgroundIntent,
    request::ContextEdit,
    request::UnifiedStateInput,
    request::UnifiedRequestV2,
    resource::UnifiedProviderDataRef,
    resource::UnifiedProviderResourceRef,
    resource::UnifiedResourceOwner,
    resource::UnifiedPortableAnnotation,
    resource::UnmappedEntry,
    resource::UnmappedPayload,
    result::UnifiedResolvedModel,
    result::UnifiedStateOutput,
    result::UnifiedAlternative,
    result::UnifiedResultV2,
    status::SafetyDetail,
    status::UnifiedResponseStatus,
    tool::ToolGrammar,
    tool::ApprovalLists,
    tool::UserLocation,
    tool::NetworkPolicy,
    tool::UnifiedHostedToolConfig,
    tool::UnifiedToolDefinition,
    tool::UnifiedToolSelector,
    tool::UnifiedToolChoice,
    transport::UnifiedTransportMetadata,
    usage::UnifiedCounter,
    usage::UnifiedCost,
    usage::UnifiedUsageCounters,
}

#[test]
fn samples_leave_no_member_out() {
    throughline_format::clause!("PART-01");
    let bases: BTreeSet<String> = [
        fields_of::<throughline_format::UnifiedItemBase>(),
        fields_of::<throughline_format::part::UnifiedPartBase>(),
        fields_of::<throughline_format::event::UnifiedEventBase>(),
    ]
    .into_iter()
    .flatten()
    .chain(["kind".to_owned()])
    .collect();
    let shapes = shapes();
    for (name, fields) in all_records() {
        if name == "UnifiedToolChoice" {
            // A union in one record: no legal choice has every member.
            let shown: BTreeSet<String> = records::choices()
                .iter()
                .flat_map(|c| c.as_object().unwrap().keys().cloned().collect::<Vec<_>>())
                .collect();
            assert_eq!(shown, fields);
            continue;
        }
        let is_base = name.ends_with("Base");
        let shown = shapes
            .iter()
            .any(|shape| fields.is_subset(shape) && (is_base || shape.difference(&fields).all(|extra| bases.contains(extra))));
        // Which members a choice has depends on its kind, so that no choice has all of them.
        let chosen = || {
            records::choices()
                .iter()
                .flat_map(|c| c.as_object().unwrap().keys().cloned())
                .collect::<BTreeSet<_>>()
        };
        let shown = shown || (name == "UnifiedToolChoice" && chosen() == fields);
        assert!(shown, "no sample has every member of {name}: {fields:?}");
    }
}

#[test]
fn the_list_of_records_is_complete() {
    let listed: BTreeSet<&str> = all_records().into_iter().map(|(name, _)| name).collect();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in std::fs::read_dir(source)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
    {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text
            .lines()
            .filter_map(|l| l.strip_prefix("    pub struct "))
            .filter(|l| !l.starts_with('$') && !l.contains("{ base: "))
        {
            let name = line.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            assert!(listed.contains(name), "{name} of {} has no sample", file.display());
        }
    }
}

#[test]
fn common_members_and_those_of_a_kind_never_share_a_name() {
    // One object holds both, so a shared name would be taken by the common members alone.
    let whole = |values: Vec<Value>, base: &BTreeSet<String>| {
        for value in values {
            assert!(base.iter().all(|member| value.get(member).is_some()), "{value}");
        }
    };
    whole(items(), &fields_of::<throughline_format::UnifiedItemBase>());
    whole(parts(), &fields_of::<throughline_format::part::UnifiedPartBase>());
    whole(events(), &fields_of::<throughline_format::event::UnifiedEventBase>());
    let records: std::collections::BTreeMap<_, _> = all_records().into_iter().collect();
    let apart = |base: &str, kinds: &[&str]| {
        for kind in kinds {
            assert!(records[base].is_disjoint(&records[kind]), "{base} and {kind}");
        }
    };
    apart(
        "UnifiedPartBase",
        &[
            "TextPart",
            "ReasoningPart",
            "RefusalPart",
            "MediaPart",
            "JsonPart",
            "UnifiedCitation",
            "GroundingSourcePart",
            "ArtifactReferencePart",
        ],
    );
    let named = |suffix: &str| records.keys().copied().filter(|n| n.ends_with(suffix)).collect::<Vec<_>>();
    apart("UnifiedItemBase", &named("Item"));
    let events = named("Delta").into_iter().chain(named("Ready")).chain(named("Event"));
    apart("UnifiedEventBase", &events.filter(|n| *n != "FieldDelta").collect::<Vec<_>>());
    apart(
        "UnifiedEventBase",
        &[
            "OperationCreated",
            "OperationChanged",
            "OperationCompleted",
            "ResponseStarted",
            "ResponseMetadata",
            "ItemStarted",
            "ItemCompleted",
        ],
    );
    apart(
        "UnifiedEventBase",
        &[
            "UsageUpdate",
            "CheckpointInvalidated",
            "Warning",
            "LossUpdate",
            "Heartbeat",
            "StreamCompleted",
        ],
    );
}
