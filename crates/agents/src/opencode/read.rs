//! Sessions to transcripts.

use super::files::{self, Message, Session};
use super::{NAME, parts};
use crate::builder::{Builder, Stamp};
use crate::fields::Fields;
use crate::source::Source;
use crate::transcript::{SessionFacts, Transcript};
use throughline_format::item::{ErrorItem, InterruptionCause, InterruptionItem, Role};
use throughline_format::usage::{CostKind, UnifiedCost, UsageScope, UsageSource};
use throughline_format::{ErrorCategory, LossSeverity, UnifiedCounter, UnifiedError, UnifiedItemBody, UnifiedUsage};
use throughline_protocols::Feature;

/// Providers that are the vendor of their models; others resell, or are a name of the user's own.
const VENDORS: &[&str] = &["anthropic", "openai", "google", "mistral", "xai", "deepseek", "groq"];

pub(super) fn read(source: &Source) -> Result<Vec<Transcript>, UnifiedError> {
    let found = files::sort(source);
    let mut transcripts: Vec<Transcript> = found
        .sessions
        .iter()
        .filter(|(_, session)| session.info.is_some() || !session.messages.is_empty())
        .map(|(id, session)| transcript(id, session))
        .collect();
    // Subagents after whom they belong to.
    transcripts.sort_by_key(|t| (t.session.parent.is_some(), t.session.created_at));
    let Some(first) = transcripts.first_mut() else {
        let message = "there is no session of OpenCode in it: neither an export nor files of its storage";
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "transcript", message));
    };
    for path in found.damaged {
        first.warnings.push(crate::Warning {
            code: "transcript.damaged-record",
            message: "it is no JSON object, or belongs to nothing; it is left out".to_owned(),
            place: path,
        });
    }
    Ok(transcripts)
}

fn transcript(id: &str, session: &Session) -> Transcript {
    let info = session.info.as_deref().and_then(Fields::parse).unwrap_or_default();
    let time = info.object("time").unwrap_or_default();
    let facts = SessionFacts {
        id: id.to_owned(),
        parent: info.word("parentID"),
        cwd: info.word("directory"),
        title: info.word("title"),
        version: info.word("version"),
        git_branch: None,
        model_source: info.object("model").and_then(|model| model.word("providerID")),
        created_at: time.time("created"),
        updated_at: time.time("updated"),
    };
    let mut reader = Reader {
        builder: Builder::new(NAME, facts),
        compaction: None,
    };
    if let Some(info) = &session.info {
        reader.builder.record("info", info.clone());
    }
    for (message, number) in session.messages.iter().zip(1..) {
        reader.message(message, number);
    }
    reader.builder.finish()
}

pub(super) struct Reader {
    pub(super) builder: Builder,
    /// Number of items before the message that asked for a summary.
    compaction: Option<usize>,
}

impl Reader {
    fn message(&mut self, message: &Message, number: usize) {
        let record = self.builder.record("message", message.to_export().as_str());
        let info = Fields::parse(&message.info).unwrap_or_default();
        let is_user = info.text("role").as_deref() == Some("user");
        let model = info.object("model").unwrap_or_default();
        let provider = info.word("providerID").or_else(|| model.word("providerID"));
        let stamp = Stamp {
            at: info.object("time").and_then(|time| time.time("created")),
            vendor: provider.filter(|name| VENDORS.contains(&name.as_str())),
            model: info.word("modelID").or_else(|| model.word("modelID")),
            injected: false,
        };
        let before = self.builder.transcript.items.len();
        let key = info.word("id").unwrap_or_else(|| format!("message-{number}"));
        let opened: Vec<Fields<'_>> = message.parts.iter().filter_map(|part| Fields::parse(part)).collect();
        let asks = opened.iter().any(|part| part.text("type").as_deref() == Some("compaction"));
        if asks {
            self.compaction = Some(before);
        }
        if info.flag("summary") && !is_user {
            self.summary(&opened, record, &key, before, &stamp);
        } else {
            let role = if is_user { Role::User } else { Role::Assistant };
            parts::read(
                self,
                &opened,
                &parts::Place {
                    record,
                    number,
                    key: &key,
                    role,
                },
                &stamp,
            );
            if opened.is_empty() && (info.raw("summary").is_some() || info.raw("system").is_some()) {
                // Versions without parts: what was said is not in the file.
                let reason = "a message whose parts are not there";
                self.builder
                    .lose(LossSeverity::Info, Feature::ConversationItem, format!("/{number}"), reason);
            }
        }
        if let Some(error) = info.object("error") {
            self.error(&error, record, &key, &stamp);
        }
        if !is_user && self.builder.transcript.items.len() > before {
            self.usage(&info);
        }
    }

    /// The answer that stands for everything before the message that asked for it.
    fn summary(&mut self, parts: &[Fields<'_>], record: usize, key: &str, before: usize, stamp: &Stamp) {
        let id = self.builder.operation(key).item(0);
        let texts = parts
            .iter()
            .filter(|part| part.text("type").as_deref() == Some("text"))
            .filter_map(|part| part.word("text"));
        let parts: Vec<_> = texts
            .zip(0..)
            .map(|(text, n)| throughline_format::UnifiedContentPart::text(id.part(n), text))
            .collect();
        let covered = self.compaction.take().unwrap_or(before);
        if !parts.is_empty() {
            self.builder.summary(Some(record), id, parts, covered, stamp);
        }
    }

    fn error(&mut self, error: &Fields<'_>, record: usize, key: &str, stamp: &Stamp) {
        let operation = self.builder.operation(&format!("{key}-error"));
        let name = error.text("name").unwrap_or_default();
        let body = if name == "MessageAbortedError" {
            UnifiedItemBody::Interruption(InterruptionItem {
                cause: InterruptionCause::ClientCancel,
                operation_id: operation.clone(),
                open_call_ids: Vec::new(),
            })
        } else {
            let category = match name.as_str() {
                "ProviderAuthError" => ErrorCategory::Auth,
                "MessageOutputLengthError" => ErrorCategory::Limit,
                "ContextOverflowError" => ErrorCategory::MaxContext,
                "ContentFilterError" => ErrorCategory::ContentFilter,
                _ => ErrorCategory::Server,
            };
            let error = UnifiedError::new(category, "upstream", "the provider refused or failed");
            UnifiedItemBody::Error(ErrorItem { error })
        };
        let item = self.builder.plain(operation.item(0), None, body);
        self.builder.item(Some(record), item, stamp);
    }

    /// One message is one call of the model. Up to 1.2 the output includes the reasoning, later it does not.
    fn usage(&mut self, info: &Fields<'_>) {
        let Some(tokens) = info.object("tokens") else { return };
        let cache = tokens.object("cache").unwrap_or_default();
        let reported = |value: Option<f64>| value.map(UnifiedCounter::reported);
        let (input, read, write) = (tokens.number("input"), cache.number("read"), cache.number("write"));
        let (output, reasoning) = (tokens.number("output"), tokens.number("reasoning"));
        let apart = tokens.number("total").is_some();
        let output_total = if apart {
            output
                .zip(reasoning)
                .map(|(output, reasoning)| UnifiedCounter::derived(output + reasoning))
        } else {
            reported(output)
        };
        let sum = input
            .zip(read)
            .zip(write)
            .map(|((input, read), write)| UnifiedCounter::derived(input + read + write));
        let cost = info.number("cost").filter(|cost| *cost > 0.0).map(|value| UnifiedCost {
            value,
            scope: UsageScope::Request,
            source: UsageSource::Estimated,
            unit: "USD".to_owned(),
            kind: CostKind::Cost,
        });
        self.builder.usage(UnifiedUsage {
            input_total: sum,
            input_uncached: reported(input),
            cache_read: reported(read),
            cache_write: reported(write),
            output_total,
            reasoning: reported(reasoning),
            cost: cost.map(|cost| vec![cost]),
            ..UnifiedUsage::default()
        });
    }
}
