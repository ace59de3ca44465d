//! The law of native records: the journal decides, a record speaks only while it says the same.
//!
//! A record whose items are all there with the content that they had when it was read is written again as it was. Any other is left
//! out, and its items are written by the rules of the runtime. Records without items (attachments, titles, snapshots) stay at their
//! place between the others.

use crate::project::Told;
use crate::transcript::{NativeRecord, Transcript};
use std::collections::HashMap;
use throughline_format::{Sha256, UnifiedId, UnifiedItem, UnifiedLossReport, content_fingerprint};
use throughline_protocols::HistoryPiece;

/// Digest of the content of items, without IDs, times and provenance.
pub(crate) fn digest<'a>(items: impl IntoIterator<Item = &'a UnifiedItem>) -> Sha256 {
    let prints: Vec<String> = items
        .into_iter()
        .map(|item| content_fingerprint(item).map_or_else(|_| String::new(), |print| print.to_hex()))
        .collect();
    Sha256::of_all(prints.iter().map(String::as_bytes))
}

/// Which records may speak, by the items that they speak for.
pub(crate) struct Speakers {
    /// For each record, whether it may be written as it was.
    may: Vec<bool>,
    /// The record that speaks for an item.
    of_item: HashMap<UnifiedId, usize>,
    /// Whether every item has one.
    whole: bool,
}

impl Speakers {
    /// Looks every record up in the items.
    pub(crate) fn of(transcript: &Transcript) -> Self {
        let items: HashMap<&UnifiedId, &UnifiedItem> = transcript.items.iter().map(|item| (&item.id, item)).collect();
        let mut of_item = HashMap::new();
        let may = transcript.records.iter().enumerate().map(|(number, record)| {
            let own: Option<Vec<&UnifiedItem>> = record.items.iter().map(|id| items.get(id).copied()).collect();
            let speaks = own.is_some_and(|own| record.items.is_empty() || record.digest == Some(digest(own)));
            if speaks {
                of_item.extend(record.items.iter().map(|id| (id.clone(), number)));
            }
            speaks
        });
        let may: Vec<bool> = may.collect();
        let whole = transcript.items.iter().all(|item| of_item.contains_key(&item.id));
        Self { may, of_item, whole }
    }

    /// Whether the records say everything.
    pub(crate) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether a record may be written.
    pub(crate) fn may(&self, record: usize) -> bool {
        self.may.get(record).copied().unwrap_or(false)
    }
}

/// What is written next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// A record as it was.
    Record(&'a NativeRecord),
    /// A piece by the rules of the runtime.
    Piece(&'a HistoryPiece),
}

/// What a writer of a runtime does with the steps.
pub(crate) trait Writer {
    /// Records and pieces follow; `has_records` tells whether a record is among them.
    fn open(&mut self, has_records: bool) {
        let _ = has_records;
    }

    /// A record as it was.
    fn record(&mut self, record: &NativeRecord);

    /// A piece by the rules of the runtime.
    fn piece(&mut self, piece: &HistoryPiece, told: &Told);

    /// Ends what pieces have begun.
    fn close(&mut self) {}

    /// All of them in their order, for a runtime that puts pieces together otherwise.
    fn steps(&mut self, steps: &[Step<'_>], told: &Told) {
        for step in steps {
            match step {
                Step::Record(record) => {
                    self.close();
                    self.record(record);
                }
                Step::Piece(piece) => self.piece(piece, told),
            }
        }
        self.close();
    }
}

/// Writes a transcript: the records alone where they say everything, else the records that may speak between the pieces of
/// what the runtime is told. `speakers` are absent when the transcript is another runtime's. Gives the losses of the telling.
pub(crate) fn write(
    transcript: &Transcript,
    speakers: Option<&Speakers>,
    writer: &mut dyn Writer,
    tell: impl FnOnce() -> Told,
) -> UnifiedLossReport {
    if let Some(speakers) = speakers.filter(|speakers| speakers.is_whole()) {
        let own = transcript.records.iter().enumerate().filter(|(n, _)| speakers.may(*n));
        own.for_each(|(_, record)| writer.record(record));
        return UnifiedLossReport::default();
    }
    let told = tell();
    let steps = match speakers {
        Some(speakers) => merge(transcript, speakers, &told.pieces),
        None => told.pieces.iter().map(Step::Piece).collect(),
    };
    writer.open(steps.iter().any(|step| matches!(step, Step::Record(_))));
    writer.steps(&steps, &told);
    told.loss
}

/// Records and pieces in the order of the conversation.
pub(crate) fn merge<'a>(transcript: &'a Transcript, speakers: &Speakers, pieces: &'a [HistoryPiece]) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let mut records = transcript.records.iter().enumerate().filter(|(n, _)| speakers.may(*n)).peekable();
    for piece in pieces {
        match speakers.of_item.get(&piece.item) {
            Some(speaker) => {
                while let Some((_, record)) = records.next_if(|(n, _)| n <= speaker) {
                    steps.push(Step::Record(record));
                }
            }
            None => steps.push(Step::Piece(piece)),
        }
    }
    steps.extend(records.map(|(_, record)| Step::Record(record)));
    steps
}
