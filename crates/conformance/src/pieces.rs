//! Bodies of a case as text, with the generated pieces that are too large for a file.

use base64::Engine as _;
use serde_json::Value;

/// The bytes of a stream's network reads.
pub(crate) fn chunks(input: &Value) -> Result<Vec<Vec<u8>>, String> {
    let base64 = input.get("encoding").and_then(Value::as_str) == Some("base64");
    let list = input.get("chunks").and_then(Value::as_array).ok_or("the input has no chunks")?;
    list.iter()
        .map(|chunk| {
            let text = chunk.as_str().ok_or("a chunk is no text")?;
            if base64 {
                base64::engine::general_purpose::STANDARD
                    .decode(text)
                    .map_err(|e| format!("a chunk is no base64: {e}"))
            } else {
                Ok(text.as_bytes().to_vec())
            }
        })
        .collect()
}

/// The text of `body` with what `generate` describes put in.
///
/// A piece may be too deep for any JSON writer, so the text of the body gets markers that are replaced in it.
pub(crate) fn body(input: &Value) -> Result<String, String> {
    let mut body = input.get("body").ok_or("the input has no body")?.clone();
    let empty = Vec::new();
    let pieces = input.get("generate").and_then(Value::as_array).unwrap_or(&empty);
    let mut replacements = Vec::new();
    for piece in pieces {
        let name = piece.get("name").and_then(Value::as_str).ok_or("a generated piece has no name")?;
        let text = generate(piece)?;
        let text = if piece.get("as").and_then(Value::as_str) == Some("json_string") {
            Value::String(text).to_string()
        } else {
            text
        };
        let marker = format!("@@{name}@@");
        if let Some(pointer) = piece.get("at").and_then(Value::as_str) {
            let place = body.pointer_mut(pointer).ok_or_else(|| format!("nothing stands at {pointer}"))?;
            *place = Value::String(marker.clone());
        }
        replacements.push((format!("\"{marker}\""), text.clone()));
        replacements.push((format!("\"<{name}>\""), text));
    }
    let written = body.to_string();
    Ok(replacements
        .iter()
        .fold(written, |written, (marker, text)| written.replace(marker, text)))
}

fn generate(piece: &Value) -> Result<String, String> {
    let number = |key: &str| piece.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let depth = number("depth").unwrap_or(0);
    let key = piece.get("key").and_then(Value::as_str).unwrap_or("a");
    let shape = piece.get("shape").and_then(Value::as_str).unwrap_or_default();
    match shape {
        "nested_object" => Ok(format!("{}1{}", format!("{{\"{key}\":").repeat(depth), "}".repeat(depth))),
        "nested_schema" => Ok(format!(
            "{}{{\"type\":\"string\"}}{}",
            format!("{{\"type\":\"object\",\"properties\":{{\"{key}\":").repeat(depth),
            "}}".repeat(depth)
        )),
        "nested_array" => Ok(format!("{}{}", "[".repeat(depth), "]".repeat(depth))),
        "text" | "string" => Ok(format!("\"{}\"", "x".repeat(number("bytes").or(number("count")).unwrap_or(0)))),
        other => Err(format!("no generator for the shape {other:?}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_stand_where_they_are_told() {
        let input = json!({"body": {"a": "<deep>", "b": {"c": 0}, "d": 0}, "generate": [
            {"name": "deep", "shape": "nested_object", "key": "k", "depth": 2},
            {"name": "text", "shape": "text", "bytes": 3, "at": "/b/c"},
            {"name": "quoted", "shape": "nested_array", "depth": 2, "at": "/d", "as": "json_string"},
        ]});
        assert_eq!(body(&input).unwrap(), r#"{"a":{"k":{"k":1}},"b":{"c":"xxx"},"d":"[[]]"}"#);
        assert!(body(&json!({"body": {}, "generate": [{"name": "x", "shape": "spiral"}]})).is_err());
    }

    #[test]
    fn chunks_are_bytes() {
        assert_eq!(
            chunks(&json!({"encoding": "base64", "chunks": ["w6k="]})).unwrap(),
            [vec![0xc3, 0xa9]]
        );
        assert_eq!(
            chunks(&json!({"encoding": "text", "chunks": ["a", "b"]})).unwrap(),
            [b"a".to_vec(), b"b".to_vec()]
        );
    }
}
