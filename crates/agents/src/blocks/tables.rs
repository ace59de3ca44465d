//! The view in the columns of SNA's table: as rows of JSON, and as statements for `sqlite3`.

use crate::fields::Fields;
use crate::transcript::Transcript;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use throughline_format::Json;

/// The tables, with the columns that SNA reads and three for the attribution of each row.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS chat_sessions (id TEXT PRIMARY KEY, label TEXT DEFAULT '', type TEXT DEFAULT 'main', meta TEXT, cwd TEXT, last_start_config TEXT, created_at TEXT);
CREATE TABLE IF NOT EXISTS chat_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE, actor TEXT DEFAULT 'user', kind TEXT DEFAULT 'text', content TEXT DEFAULT '', embeds TEXT, meta TEXT, provider TEXT, model_provider TEXT, model TEXT, created_at TEXT, updated_at TEXT);
";

/// A block as a row. What the columns do not have (the IDs of block, item and part) stands in `meta`.
fn row(session_id: &str, block: &Json) -> Map<String, Value> {
    let fields = Fields::parse(block.as_str()).unwrap_or_default();
    let value = |key: &str| fields.json(key).map_or(Value::Null, |json| json.parse());
    let mut meta = match value("meta") {
        Value::Object(meta) => meta,
        _ => Map::new(),
    };
    for key in ["id", "itemId", "partId"] {
        if let Some(id) = fields.word(key) {
            meta.entry(format!("throughline:{key}")).or_insert(json!(id));
        }
    }
    let created = [value("createdAt"), value("created_at")]
        .into_iter()
        .find(|time| !time.is_null())
        .unwrap_or_default();
    let mut row = Map::new();
    row.insert("session_id".to_owned(), json!(session_id));
    for key in ["actor", "kind", "content", "embeds"] {
        row.insert(key.to_owned(), value(key));
    }
    row.insert("meta".to_owned(), if meta.is_empty() { Value::Null } else { Value::Object(meta) });
    for (column, key) in [("provider", "provider"), ("model_provider", "modelProvider"), ("model", "model")] {
        row.insert(column.to_owned(), value(key));
    }
    row.insert("created_at".to_owned(), created.clone());
    row.insert("updated_at".to_owned(), created);
    row
}

/// One row a line.
pub(super) fn rows(session_id: &str, blocks: &[Json]) -> String {
    blocks.iter().fold(String::new(), |all, block| {
        all + &Value::Object(row(session_id, block)).to_string() + "\n"
    })
}

/// A text of the language: quotes are doubled, and a NUL, which no text can hold, is left out.
fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::String(text) => format!("'{}'", text.replace('\'', "''").replace('\0', "")),
        other => format!("'{}'", other.to_string().replace('\'', "''")),
    }
}

/// Statements that make the tables and fill them.
pub(super) fn sql(transcript: &Transcript, session_id: &str, blocks: &[Json]) -> String {
    let session = &transcript.session;
    let mut out = format!("PRAGMA foreign_keys=ON;\nBEGIN TRANSACTION;\n{SCHEMA}");
    let text = |value: Option<&str>| quoted(&value.map_or(Value::Null, |value| json!(value)));
    let began = session.created_at.map(|at| at.to_string());
    let _ = writeln!(
        out,
        "INSERT INTO chat_sessions (id, label, cwd, created_at) VALUES ({}, {}, {}, {});",
        text(Some(session_id)),
        text(session.title.as_deref().or(Some(""))),
        text(session.cwd.as_deref()),
        text(began.as_deref()),
    );
    for block in blocks {
        let row = row(session_id, block);
        let columns: Vec<&str> = row.keys().map(String::as_str).collect();
        let values: Vec<String> = row.values().map(quoted).collect();
        let _ = writeln!(
            out,
            "INSERT INTO chat_messages ({}) VALUES ({});",
            columns.join(", "),
            values.join(", ")
        );
    }
    out + "COMMIT;\n"
}
