//! OpenCode's own database, read only: its rows as the files that older versions kept.
//!
//! The one place outside the store that speaks SQL, to a database of another program. It is opened for reading, and nothing is ever
//! written to it. Its schema changes with minor versions, so only what all of them have is asked for: the columns `id`, `session_id`,
//! `message_id` and `data`; a session's row is taken as it is.

use crate::error::CliError;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use throughline_agents::{Source, SourceFile};

/// How a file of SQLite begins.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// How long a lock of the running program is waited for.
const BUSY: Duration = Duration::from_secs(5);

/// Whether a file is a database.
pub(super) fn is_one(path: &Path) -> bool {
    let mut head = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    read.is_ok() && head == *MAGIC
}

fn failed(error: rusqlite::Error) -> CliError {
    CliError::input("transcript", format!("the database of OpenCode cannot be read: {error}"))
}

fn open(path: &Path) -> Result<Connection, CliError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    Ok(connection)
}

/// IDs of the sessions, the one that began last first.
pub(super) fn sessions(path: &Path) -> Result<Vec<String>, CliError> {
    let connection = open(path)?;
    // IDs of sessions descend with time.
    let mut statement = connection.prepare("SELECT id FROM session ORDER BY id").map_err(failed)?;
    let rows = statement.query_map([], |row| row.get(0)).map_err(failed)?;
    rows.collect::<Result<_, _>>().map_err(failed)
}

/// The rows of a session as files of `storage`.
pub(super) fn session(path: &Path, id: &str) -> Result<Source, CliError> {
    let connection = open(path)?;
    let mut files = Vec::new();
    let mut each = |sql: &str, name: &dyn Fn(&Map<String, Value>) -> String| -> Result<(), CliError> {
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query([id]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let object = object(row, &columns).map_err(failed)?;
            files.push(SourceFile::new(name(&object), Value::Object(object).to_string()));
        }
        Ok(())
    };
    let text = |object: &Map<String, Value>, key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    each("SELECT * FROM session WHERE id = ?1", &|o| {
        format!("session/{}/{}.json", text(o, "projectID"), text(o, "id"))
    })?;
    each("SELECT id, session_id, data FROM message WHERE session_id = ?1 ORDER BY id", &|o| {
        format!("message/{}/{}.json", text(o, "sessionID"), text(o, "id"))
    })?;
    each(
        "SELECT id, message_id, session_id, data FROM part WHERE session_id = ?1 ORDER BY id",
        &|o| format!("part/{}/{}.json", text(o, "messageID"), text(o, "id")),
    )?;
    Ok(Source { files })
}

/// A row as the object that a file held: columns in their older spelling, members of `data` beside them.
fn object(row: &Row<'_>, columns: &[String]) -> rusqlite::Result<Map<String, Value>> {
    let mut object = Map::new();
    for (at, column) in columns.iter().enumerate() {
        let value = match row.get_ref(at)? {
            ValueRef::Null | ValueRef::Blob(_) => continue,
            ValueRef::Integer(number) => json!(number),
            ValueRef::Real(number) => json!(number),
            ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        };
        if column == "data" {
            let data = value
                .as_str()
                .and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
            object.extend(data.unwrap_or_default());
            continue;
        }
        // Columns of JSON are texts.
        let opened = value
            .as_str()
            .filter(|text| text.starts_with(['{', '[']))
            .and_then(|text| serde_json::from_str(text).ok());
        let value = opened.unwrap_or(value);
        match grouped(column) {
            Some((group, name)) => {
                let mut place = &mut object;
                for group in group {
                    let inner = place.entry(*group).or_insert_with(|| json!({}));
                    let Some(inner) = inner.as_object_mut() else { return Ok(object) };
                    place = inner;
                }
                place.insert(name.to_owned(), value);
            }
            None => {
                object.insert(camel(column), value);
            }
        }
    }
    Ok(object)
}

/// Columns that were members of an object in an object.
fn grouped(column: &str) -> Option<(&'static [&'static str], &str)> {
    const GROUPS: &[(&str, &[&str])] = &[
        ("time_", &["time"]),
        ("summary_", &["summary"]),
        ("tokens_cache_", &["tokens", "cache"]),
        ("tokens_", &["tokens"]),
        ("share_", &["share"]),
    ];
    GROUPS.iter().find_map(|(head, group)| Some((*group, column.strip_prefix(head)?)))
}

/// `project_id` as `projectID`, `parent_id` as `parentID`.
fn camel(column: &str) -> String {
    let mut words = column.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        if word == "id" {
            name.push_str("ID");
            continue;
        }
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}
