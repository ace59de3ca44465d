//! [`DiagnosticFiles`]: raw bodies for finding faults, opt-in and apart from everything else.
//!
//! One sealed file per body in a directory of its own; no row of the store and no read trait knows of it, so nothing can depend
//! on it: it may be off, full, damaged or deleted, and every answer stays the same. It is bounded in bytes, oldest bodies go
//! first, and a conversation that is gone takes its bodies along ([`DiagnosticFiles::follow`]). The calls block.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use throughline_format::{Sha256, Timestamp, UnifiedId};

use crate::sealing::{RecordKind, SealContext, Sealed};
use crate::{StoreError, UnifiedStateStore, Vault};

/// Which body it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// What was sent upstream.
    UpstreamRequest,
    /// What a provider answered.
    UpstreamResponse,
}

/// A raw body and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The conversation that it lives and dies with.
    pub conversation_id: UnifiedId,
    /// The operation.
    pub operation_id: UnifiedId,
    /// Which body.
    pub direction: Direction,
    /// When.
    pub created_at: Timestamp,
    /// The body, without headers; cut at the bound.
    pub body: Vec<u8>,
}

/// Bounds of the diagnostic store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagnosticLimits {
    /// Bytes of one body; the rest is cut.
    pub body_bytes: usize,
    /// Bytes of all files; the oldest go first.
    pub total_bytes: u64,
}

impl Default for DiagnosticLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            total_bytes: 256 * 1024 * 1024,
        }
    }
}

/// The first line of a file, in clear; the seal is bound to it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    conversation_id: UnifiedId,
    operation_id: UnifiedId,
    direction: Direction,
    created_at: Timestamp,
}

impl Header {
    fn context(&self, line: &[u8]) -> SealContext {
        SealContext {
            kind: RecordKind::Diagnostic,
            record_id: self.operation_id.clone(),
            conversation_id: self.conversation_id.clone(),
            // There is no owner scope; what takes its place binds the seal to the whole first line.
            owner_fingerprint: Sha256::of(line),
            branch_id: None,
            journal_head: None,
        }
    }
}

/// A directory of sealed bodies.
#[derive(Debug)]
pub struct DiagnosticFiles {
    directory: PathBuf,
    vault: Arc<Vault>,
    limits: DiagnosticLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    total: u64,
    /// Oldest first, with their sizes.
    files: VecDeque<(PathBuf, u64)>,
}

impl DiagnosticFiles {
    /// Opens, and if need be makes, exactly this directory.
    pub fn open(directory: PathBuf, vault: Arc<Vault>, limits: DiagnosticLimits) -> Result<Self, StoreError> {
        make_directory(&directory)?;
        let mut found = Vec::new();
        for folder in entries(&directory)? {
            for file in entries(&folder)? {
                let size = fs::metadata(&file).map_or(0, |metadata| metadata.len());
                found.push((number_of(&file), file, size));
            }
        }
        found.sort();
        let state = State {
            next: found.last().map_or(0, |(number, _, _)| number + 1),
            total: found.iter().map(|(_, _, size)| size).sum(),
            files: found.into_iter().map(|(_, file, size)| (file, size)).collect(),
        };
        Ok(Self {
            directory,
            vault,
            limits,
            state: Mutex::new(state),
        })
    }

    /// Its bounds.
    pub const fn limits(&self) -> &DiagnosticLimits {
        &self.limits
    }

    /// Seals and keeps a body. It is not synced: a crash may lose the last ones.
    pub fn record(&self, diagnostic: &Diagnostic) -> Result<(), StoreError> {
        let header = Header {
            conversation_id: diagnostic.conversation_id.clone(),
            operation_id: diagnostic.operation_id.clone(),
            direction: diagnostic.direction,
            created_at: diagnostic.created_at,
        };
        let mut content = serde_json::to_vec(&header).map_err(|_| StoreError::internal("a diagnostic header has no JSON form"))?;
        let body = diagnostic.body.get(..self.limits.body_bytes).unwrap_or(&diagnostic.body);
        let sealed = self.vault.seal(&header.context(&content), body)?;
        content.push(b'\n');
        content.extend_from_slice(sealed.as_bytes());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let size = content.len() as u64;
        if size > self.limits.total_bytes {
            return Ok(());
        }
        while state.total + size > self.limits.total_bytes {
            let Some((oldest, freed)) = state.files.pop_front() else { break };
            // That it is gone already is as good.
            let _ = fs::remove_file(oldest);
            state.total = state.total.saturating_sub(freed);
        }
        let folder = self.folder(&diagnostic.conversation_id);
        make_directory(&folder)?;
        let operation = Sha256::of(diagnostic.operation_id.as_str().as_bytes()).to_hex();
        let path = folder.join(format!("{:012}-{}", state.next, operation.get(..16).unwrap_or(&operation)));
        let written = create_private(&path).and_then(|mut file| file.write_all(&content));
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(StoreError::io("writing a diagnostic body", &error));
        }
        state.next += 1;
        state.total += size;
        state.files.push_back((path, size));
        Ok(())
    }

    /// The bodies of an operation, oldest first, for people. One that does not open is an error.
    pub fn read(&self, conversation_id: &UnifiedId, operation_id: &UnifiedId) -> Result<Vec<Diagnostic>, StoreError> {
        let mut files = entries(&self.folder(conversation_id))?;
        files.sort_by_key(|file| number_of(file));
        let mut found = Vec::new();
        for file in files {
            let content = fs::read(&file).map_err(|error| StoreError::io("reading a diagnostic body", &error))?;
            let (line, header) = header_of(&content)?;
            if header.operation_id != *operation_id {
                continue;
            }
            let sealed = Sealed::from_bytes(content.get(line.len() + 1..).unwrap_or_default().to_vec())?;
            let body = self.vault.open(&header.context(line), &sealed)?.to_vec();
            found.push(Diagnostic {
                conversation_id: header.conversation_id,
                operation_id: header.operation_id,
                direction: header.direction,
                created_at: header.created_at,
                body,
            });
        }
        Ok(found)
    }

    /// Removes the bodies of conversations that the store does not have any more: they share the retention of their conversation.
    /// Gives the number of conversations.
    pub async fn follow(&self, store: &dyn UnifiedStateStore) -> Result<u64, StoreError> {
        let mut gone = 0;
        for folder in entries(&self.directory)? {
            let first = entries(&folder)?.into_iter().next();
            let conversation_id = match first {
                Some(file) => fs::read(&file)
                    .ok()
                    .and_then(|content| Some(header_of(&content).ok()?.1.conversation_id)),
                None => None,
            };
            // A folder without a readable body belongs to nobody.
            let keep = match &conversation_id {
                Some(id) => store.conversation(id).await?.is_some(),
                None => false,
            };
            if !keep {
                self.remove(&folder)?;
                gone += u64::from(conversation_id.is_some());
            }
        }
        Ok(gone)
    }

    fn remove(&self, folder: &Path) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::io("removing diagnostic bodies", &error)),
            _ => {}
        }
        let (gone, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut state.files)
            .into_iter()
            .partition(|(path, _)| path.parent() == Some(folder));
        state.total = state.total.saturating_sub(gone.iter().map(|(_, size)| size).sum());
        state.files = kept;
        Ok(())
    }

    /// A folder per conversation, named by a hash since an ID may be no file name.
    fn folder(&self, conversation_id: &UnifiedId) -> PathBuf {
        let name = Sha256::of(conversation_id.as_str().as_bytes()).to_hex();
        self.directory.join(name.get(..32).unwrap_or(&name))
    }
}

fn header_of(content: &[u8]) -> Result<(&[u8], Header), StoreError> {
    let damaged = || StoreError::Corrupt {
        detail: "a diagnostic body has no header".to_owned(),
    };
    let line = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header = serde_json::from_slice(line).map_err(|_| damaged())?;
    Ok((line, header))
}

/// The number in the name of a file: the order in which bodies came.
fn number_of(path: &Path) -> u64 {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn entries(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let fail = |error: std::io::Error| StoreError::io("reading the diagnostic store", &error);
    match fs::read_dir(path) {
        Ok(found) => found.map(|entry| entry.map(|entry| entry.path()).map_err(fail)).collect(),
        // The directory may have been deleted; that is allowed at any time.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
    }
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .recursive(true)
        .create(path)
        .map_err(|error| StoreError::io("making the diagnostic store", &error))
}

fn create_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
