//! Compaction: a summary in place of a prefix of history (spec, Canonical items; open-types.md, section 4).
//!
//! A summary covers a contiguous prefix of its path, names it, and carries the audit hash of the covered items, which stay
//! in the journal. It never separates a call from its result: [`compact`] refuses such a boundary, [`boundary`] finds the
//! nearest one before it that is whole. Everything here is a pure function over items.

use crate::canonical::{self, CanonicalError};
use crate::item::{CompactionSummaryItem, CoveredRange, SummaryAuthor, UnifiedItem, UnifiedItemBody, newest_instructions};
use crate::lifecycle::UnifiedToolLifecycle;
use crate::{Count, Sha256, UnifiedContentPart, UnifiedId};
use sha2::Digest as _;
use std::collections::{HashMap, HashSet};

/// What the audit hash begins with.
const DOMAIN: &[u8] = b"unified-compaction@1\n";

/// Why a summary is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The range does not begin with the first item of the path.
    #[error("a summary covers a prefix: the path does not begin with the first covered item")]
    NotAPrefix,
    /// The last item of the range is not on the path.
    #[error("the last covered item is not on the path")]
    UnknownItem,
    /// The range has another number of items.
    #[error("the range has {found} items, the summary counts {told}")]
    Count {
        /// What the path has.
        found: Count,
        /// What the summary says.
        told: Count,
    },
    /// The covered items have another hash.
    #[error("the covered items have another audit hash")]
    AuditHash,
    /// Items of the range do not follow one another.
    #[error("the covered items do not follow one another from sequence 1 on")]
    Broken,
    /// An item of the range is not in a journal or not finished.
    #[error("a covered item is not finished, or not in a journal yet")]
    Unfinished,
    /// A call of the range has no result in it.
    #[error("a covered call has no result in the range; move the boundary")]
    SplitsCall,
    /// A summary without content.
    #[error("a summary has at least one part")]
    Empty,
    /// An item has no canonical form.
    #[error(transparent)]
    Canonical(#[from] CanonicalErrorText),
}

/// An item has no canonical form, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a covered item has no canonical form: {0}")]
pub struct CanonicalErrorText(String);

impl From<CanonicalError> for CompactionError {
    fn from(error: CanonicalError) -> Self {
        Self::Canonical(CanonicalErrorText(error.to_string()))
    }
}

/// The audit hash of a growing prefix.
#[derive(Clone, Debug)]
pub(crate) struct AuditChain(sha2::Sha256);

impl Default for AuditChain {
    fn default() -> Self {
        Self(sha2::Sha256::new_with_prefix(DOMAIN))
    }
}

impl AuditChain {
    /// Adds the next item.
    pub(crate) fn push(&mut self, item: &UnifiedItem) -> Result<(), CanonicalError> {
        self.0.update(canonical::fingerprint(item)?.to_hex().as_bytes());
        self.0.update(b"\n");
        Ok(())
    }

    /// The hash so far.
    pub(crate) fn hash(&self) -> Sha256 {
        Sha256::from_bytes(self.0.clone().finalize().into())
    }
}

/// SHA-256 over the UTF-8 bytes `unified-compaction@1\n`, then the fingerprint of each item in hex and `\n`, in order.
///
/// # Errors
/// When an item has no canonical form.
pub fn audit_hash<'a>(items: impl IntoIterator<Item = &'a UnifiedItem>) -> Result<Sha256, CanonicalError> {
    let mut chain = AuditChain::default();
    items.into_iter().try_for_each(|item| chain.push(item))?;
    Ok(chain.hash())
}

/// A summary of the path from its first item through `through`, that projections use in place of these items.
///
/// # Errors
/// [`CompactionError`] when the range is no whole prefix of finished journal items, or the summary is empty.
pub fn compact(
    path: &[UnifiedItem],
    through: &UnifiedId,
    parts: Vec<UnifiedContentPart>,
    author: SummaryAuthor,
) -> Result<CompactionSummaryItem, CompactionError> {
    let covered = prefix(path, through)?;
    check_range(covered)?;
    if open_after(covered).last() != Some(&true) {
        return Err(CompactionError::SplitsCall);
    }
    summary_of(covered, parts, author, true)
}

/// A provider's or client's own summary whose reach was not told: it covers everything before it and replaces nothing.
///
/// # Errors
/// [`CompactionError`] as for [`compact`], except that open calls may stand in the range: nothing is left out for it.
pub fn record_untold(
    path: &[UnifiedItem],
    parts: Vec<UnifiedContentPart>,
    author: SummaryAuthor,
) -> Result<CompactionSummaryItem, CompactionError> {
    check_range(path)?;
    summary_of(path, parts, author, false)
}

fn summary_of(
    covered: &[UnifiedItem],
    parts: Vec<UnifiedContentPart>,
    author: SummaryAuthor,
    replaces: bool,
) -> Result<CompactionSummaryItem, CompactionError> {
    let (Some(first), Some(last)) = (covered.first(), covered.last()) else {
        return Err(CompactionError::UnknownItem);
    };
    // A provider's own summary may be readable to it alone; one that stands for what it covers must say something.
    if parts.is_empty() && replaces {
        return Err(CompactionError::Empty);
    }
    Ok(CompactionSummaryItem {
        parts,
        covers: CoveredRange {
            from_item_id: first.id.clone(),
            to_item_id: last.id.clone(),
            count: covered.len() as Count,
        },
        audit_hash: audit_hash(covered)?,
        replaces,
        author,
    })
}

/// The prefix that ends with an item.
fn prefix<'a>(path: &'a [UnifiedItem], through: &UnifiedId) -> Result<&'a [UnifiedItem], CompactionError> {
    let at = path.iter().position(|i| i.id == *through).ok_or(CompactionError::UnknownItem)?;
    path.get(..=at).ok_or(CompactionError::UnknownItem)
}

/// Items that follow one another from the root of a journal, all finished.
fn check_range(covered: &[UnifiedItem]) -> Result<(), CompactionError> {
    covered.iter().zip(1..).try_for_each(|(item, expected)| check_item(item, expected))
}

/// A finished item of a journal at its place.
fn check_item(item: &UnifiedItem, expected: Count) -> Result<(), CompactionError> {
    if item.conversation_id.is_pending() || !item.status.is_terminal() {
        return Err(CompactionError::Unfinished);
    }
    if item.sequence == expected {
        Ok(())
    } else {
        Err(CompactionError::Broken)
    }
}

/// Checks a summary against the path that it stands on, or is to stand on.
///
/// # Errors
/// [`CompactionError`] that says what does not agree.
pub fn verify(summary: &CompactionSummaryItem, path: &[UnifiedItem]) -> Result<(), CompactionError> {
    check_reach(summary, path, path.iter().position(|i| i.id == summary.covers.to_item_id))?;
    let covered = prefix(path, &summary.covers.to_item_id)?;
    check_range(covered)?;
    if audit_hash(covered)? == summary.audit_hash {
        Ok(())
    } else {
        Err(CompactionError::AuditHash)
    }
}

/// The range of a summary is a prefix of the path as long as it says; `last` is the place of its last item.
fn check_reach(summary: &CompactionSummaryItem, path: &[UnifiedItem], last: Option<usize>) -> Result<(), CompactionError> {
    let covers = &summary.covers;
    if path.first().is_none_or(|first| first.id != covers.from_item_id) {
        return Err(CompactionError::NotAPrefix);
    }
    let found = last.ok_or(CompactionError::UnknownItem)? as Count + 1;
    if found == covers.count {
        Ok(())
    } else {
        Err(CompactionError::Count { found, told: covers.count })
    }
}

/// The last item at or before `through` after which no call waits for its result and no question for its answer.
pub fn boundary<'a>(path: &'a [UnifiedItem], through: &UnifiedId) -> Option<&'a UnifiedId> {
    let covered = prefix(path, through).ok()?;
    let whole = open_after(covered).iter().rposition(|whole| *whole)?;
    covered.get(whole).map(|item| &item.id)
}

/// For each item, whether nothing is open after it.
fn open_after(items: &[UnifiedItem]) -> Vec<bool> {
    let (mut calls, mut questions) = (HashSet::new(), HashSet::new());
    items
        .iter()
        .map(|item| {
            match &item.body {
                UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => open(&mut calls, &call.call_id, call.lifecycle),
                UnifiedItemBody::ComputerAction(call) => open(&mut calls, &call.call_id, call.lifecycle),
                UnifiedItemBody::CodeExecution(call) => open(&mut calls, &call.call_id, call.lifecycle),
                UnifiedItemBody::ApprovalRequest(request) => {
                    questions.insert(request.approval_id.as_str());
                }
                UnifiedItemBody::ApprovalResponse(response) => {
                    questions.remove(response.approval_id.as_str());
                }
                UnifiedItemBody::ToolResult(_)
                | UnifiedItemBody::ServerToolResult(_)
                | UnifiedItemBody::ComputerActionResult(_)
                | UnifiedItemBody::CodeExecutionResult(_)
                | UnifiedItemBody::SearchResult(_)
                | UnifiedItemBody::RetrievalResult(_) => {
                    if let Some(id) = item.call_id() {
                        calls.remove(id);
                    }
                }
                UnifiedItemBody::Message(_)
                | UnifiedItemBody::Reasoning(_)
                | UnifiedItemBody::Artifact(_)
                | UnifiedItemBody::Reference(_)
                | UnifiedItemBody::CompactionSummary(_)
                | UnifiedItemBody::ProviderSwitch(_)
                | UnifiedItemBody::Interruption(_)
                | UnifiedItemBody::Error(_) => {}
            }
            calls.is_empty() && questions.is_empty()
        })
        .collect()
}

fn open<'a>(calls: &mut HashSet<&'a str>, call_id: &'a str, lifecycle: UnifiedToolLifecycle) {
    if !matches!(lifecycle, UnifiedToolLifecycle::Cancelled | UnifiedToolLifecycle::ApprovalDenied) {
        calls.insert(call_id);
    }
}

/// Who is to read a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// A target that gets observable history only.
    AnyTarget,
    /// The owner of provider-private state at this head, which goes on privately: its own summaries stand for what they cover.
    ContinuingOwner,
}

/// Why a summary of the path was not used.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// It replaces nothing for this reader.
    ReplacesNothing,
    /// It does not agree with the path.
    Refused(CompactionError),
}

/// The items that a projection reads, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct History<'a> {
    /// Items: the newest top-level instructions where the summary covers them, the summary, then everything after the range.
    pub items: Vec<&'a UnifiedItem>,
    /// The summary that stands for a prefix; none for the full history.
    pub summary: Option<&'a UnifiedId>,
    /// Newer summaries that were not used, newest first.
    pub passed: Vec<(&'a UnifiedId, Passed)>,
}

/// Chooses between the newest summary that holds and the full history.
///
/// A summary is used when it replaces its range for this reader, agrees with the path (range and audit hash) and separates
/// no call from its result. Summaries that are not used stay in the history as what they are, items. The work is linear in
/// the path, however many summaries there are.
pub fn history_for(path: &[UnifiedItem], reader: Reader) -> History<'_> {
    let (in_effect, passed) = in_effect(path, reader);
    let Some((at, item, range)) = in_effect else {
        return History {
            items: path.iter().collect(),
            summary: None,
            passed,
        };
    };
    let mut items: Vec<&UnifiedItem> = newest_instructions(path)
        .filter(|at| *at < range)
        .filter_map(|at| path.get(at))
        .collect();
    items.push(item);
    items.extend(path.iter().enumerate().skip(range).filter(|(i, _)| *i != at).map(|(_, item)| item));
    History {
        items,
        summary: Some(&item.id),
        passed,
    }
}

/// The places of a path that the summary in effect stands for, by the rule of [`history_for`]; empty when none is. For
/// readers that go along the path by place: what is at one of these is not sent, but for the newest top-level instructions.
pub fn covered(path: &[UnifiedItem], reader: Reader) -> std::ops::Range<usize> {
    0..in_effect(path, reader).0.map_or(0, |(_, _, range)| range)
}

/// The place of a summary, the summary, and how many items it stands for.
type InEffect<'a> = (usize, &'a UnifiedItem, usize);

/// The newest summary that holds for a reader, and the newer ones that were passed over.
fn in_effect(path: &[UnifiedItem], reader: Reader) -> (Option<InEffect<'_>>, Vec<(&UnifiedId, Passed)>) {
    let mut passed = Vec::new();
    let mut known = None;
    for (at, item) in path.iter().enumerate().rev() {
        let UnifiedItemBody::CompactionSummary(summary) = &item.body else {
            continue;
        };
        let stands_in = summary.replaces || (reader == Reader::ContinuingOwner && summary.author == SummaryAuthor::Provider);
        if !stands_in {
            passed.push((&item.id, Passed::ReplacesNothing));
            continue;
        }
        match known.get_or_insert_with(|| Prefixes::of(path)).holds(summary, path, at) {
            Err(error) => passed.push((&item.id, Passed::Refused(error))),
            Ok(range) => return (Some((at, item, range)), passed),
        }
    }
    (None, passed)
}

/// What is known of every prefix of a path, computed in one pass.
struct Prefixes<'a> {
    places: HashMap<&'a UnifiedId, usize>,
    hashes: Vec<Option<Sha256>>,
    whole: Vec<bool>,
    /// Place of the first item that no summary may cover, and why.
    unfit: Option<(usize, CompactionError)>,
}

impl<'a> Prefixes<'a> {
    fn of(path: &'a [UnifiedItem]) -> Self {
        let mut places = HashMap::new();
        for (index, item) in path.iter().enumerate() {
            places.entry(&item.id).or_insert(index);
        }
        let (mut chain, mut sound) = (AuditChain::default(), true);
        let hashes = path.iter().map(|item| {
            sound = sound && chain.push(item).is_ok();
            sound.then(|| chain.hash())
        });
        let hashes = hashes.collect();
        let unfit = path
            .iter()
            .enumerate()
            .find_map(|(index, item)| Some((index, check_item(item, index as Count + 1).err()?)));
        Self {
            places,
            hashes,
            whole: open_after(path),
            unfit,
        }
    }

    /// Whether the summary at a place of the path may stand for its range; gives the number of its items.
    fn holds(&self, summary: &CompactionSummaryItem, path: &[UnifiedItem], at: usize) -> Result<usize, CompactionError> {
        let last = self.places.get(&summary.covers.to_item_id).copied().filter(|last| *last < at);
        check_reach(summary, path, last)?;
        let last = last.ok_or(CompactionError::UnknownItem)?;
        if let Some((_, error)) = self.unfit.as_ref().filter(|(place, _)| *place <= last) {
            return Err(error.clone());
        }
        if self.hashes.get(last).copied().flatten() != Some(summary.audit_hash) {
            return Err(CompactionError::AuditHash);
        }
        if self.whole.get(last) != Some(&true) {
            return Err(CompactionError::SplitsCall);
        }
        Ok(last + 1)
    }
}
