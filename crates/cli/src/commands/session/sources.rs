//! From a path that a user names to the files of one session after the other.

use super::database;
use crate::error::CliError;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use throughline_agents::{Source, SourceFile};

/// Largest file of a session.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;
/// Deepest folder below the one that was named.
const MAX_DEPTH: usize = 8;

/// One thing to read: it is opened only when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A file.
    File(PathBuf),
    /// A session in the folder `storage` of OpenCode: the folder, and the session's file.
    Storage(PathBuf, PathBuf),
    /// A folder of OpenCode whose sessions cannot be told apart by their paths.
    Folder(PathBuf),
    /// A session in a database of OpenCode.
    Database(PathBuf, String),
}

impl Unit {
    /// What a user sees as its place.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Storage(_, path) | Self::Folder(path) | Self::Database(path, _) => path,
        }
    }

    /// When it was last written, as far as the file system tells.
    pub(super) fn modified(&self) -> SystemTime {
        let meta = std::fs::metadata(self.path()).and_then(|meta| meta.modified());
        meta.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Its size in bytes, as far as it is known beforehand.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File(path) => std::fs::metadata(path).map_or(0, |meta| meta.len()),
            Self::Storage(..) | Self::Folder(_) | Self::Database(..) => 0,
        }
    }

    /// Reads it.
    pub(super) fn load(&self) -> Result<Source, CliError> {
        let files = match self {
            Self::File(path) => vec![SourceFile::new(name_of(path), read(path)?)],
            Self::Storage(root, session) => storage(root, session)?,
            Self::Folder(root) => {
                let mut files = Vec::new();
                for path in walk(root, &|name| ends(name, "json"))? {
                    files.push(SourceFile::new(relative(root, &path), read(&path)?));
                }
                files
            }
            Self::Database(path, session) => return database::session(path, session),
        };
        Ok(Source { files })
    }
}

/// What a path of a runtime holds.
pub(super) fn units(runtime: &str, path: &Path) -> Result<Vec<Unit>, CliError> {
    let meta = std::fs::metadata(path).map_err(|e| CliError::usage(format!("cannot read {}: {e}", path.display())))?;
    if meta.is_file() {
        return match runtime {
            "opencode" if database::is_one(path) => {
                let sessions = database::sessions(path)?;
                Ok(sessions.into_iter().map(|id| Unit::Database(path.to_owned(), id)).collect())
            }
            _ => Ok(vec![Unit::File(path.to_owned())]),
        };
    }
    let wanted: &dyn Fn(&str) -> bool = match runtime {
        "codex" => &|name| name.starts_with("rollout-") && ends(name, "jsonl"),
        "gemini-cli" => &|name| name.starts_with("session-") && (ends(name, "json") || ends(name, "jsonl")),
        "opencode" => return opencode(path),
        "claude-code" => &|name| ends(name, "jsonl") && name != "history.jsonl" && name != "journal.jsonl",
        _ => &|name| ends(name, "json") || ends(name, "jsonl"),
    };
    Ok(walk(path, wanted)?.into_iter().map(Unit::File).collect())
}

/// A folder of OpenCode: its data folder, or `storage` in it.
fn opencode(path: &Path) -> Result<Vec<Unit>, CliError> {
    let database = path.join("opencode.db");
    let mut units = Vec::new();
    if database.is_file() {
        units.extend(
            database::sessions(&database)?
                .into_iter()
                .map(|id| Unit::Database(database.clone(), id)),
        );
    }
    let root = if path.join("storage").is_dir() {
        path.join("storage")
    } else {
        path.to_owned()
    };
    let sessions = root.join("session");
    if sessions.is_dir() && !sessions.join("message").is_dir() {
        for session in walk(&sessions, &|name| ends(name, "json"))? {
            units.push(Unit::Storage(root.clone(), session));
        }
    } else if units.is_empty() {
        units.push(Unit::Folder(root));
    }
    Ok(units)
}

/// The files of one session in `storage`.
fn storage(root: &Path, session: &Path) -> Result<Vec<SourceFile>, CliError> {
    let mut files = vec![SourceFile::new(relative(root, session), read(session)?)];
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let messages = root.join("message").join(stem(session));
    for message in walk(&messages, &|name| ends(name, "json"))? {
        for part in walk(&root.join("part").join(stem(&message)), &|name| ends(name, "json"))? {
            files.push(SourceFile::new(relative(root, &part), read(&part)?));
        }
        files.push(SourceFile::new(relative(root, &message), read(&message)?));
    }
    Ok(files)
}

/// Whether a file name has this ending.
fn ends(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == ending)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let names = below.components().map(|part| part.as_os_str().to_string_lossy());
    names.collect::<Vec<_>>().join("/")
}

/// Files below a folder whose names are wanted, in the order of their paths. A folder that is not there holds none; links are not
/// followed, so that no folder is met twice.
fn walk(root: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>, CliError> {
    let mut found = Vec::new();
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(CliError::usage(format!("cannot read {}: {error}", folder.display()))),
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < MAX_DEPTH {
                open.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name().to_str().is_some_and(wanted) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file, which may be growing, within the bound.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let unreadable = |error: std::io::Error| CliError::usage(format!("cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(unreadable)?;
    // What the file has now, in one piece; it may grow while it is read.
    let size = file.metadata().map_or(0, |meta| meta.len().min(MAX_FILE_BYTES));
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(CliError::too_large(
            &path.display().to_string(),
            usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX),
        ));
    }
    Ok(bytes)
}
