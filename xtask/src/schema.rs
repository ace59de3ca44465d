//! Generated files of the format: `schema/unified-v2.schema.json`, `schema/unified-v2.d.ts`.
//!
//! `schema/published/unified-v2.0.schema.json` is the schema as it was published with version 2.0. It is written once, when
//! there is none; a test of the format compares with it, since a minor version may only add.

use crate::{Failure, repo};
use throughline_format::schema::{json_schema_text, typescript};

const SCHEMA: &str = "schema/unified-v2.schema.json";
const DECLARATIONS: &str = "schema/unified-v2.d.ts";
const PUBLISHED: &str = "schema/published/unified-v2.0.schema.json";

/// Writes the generated files, or checks that they are fresh.
pub(crate) fn run(check: bool) -> Result<(), Failure> {
    for (name, text) in [(SCHEMA, json_schema_text()), (DECLARATIONS, typescript())] {
        let path = repo::root().join(name);
        if !check {
            repo::write(&path, &text)?;
        } else if repo::read(&path)? != text {
            return Err(format!("{name} is stale: run `cargo run -p xtask -- schema`"));
        }
    }
    let published = repo::root().join(PUBLISHED);
    if !published.exists() {
        if check {
            return Err(format!("{PUBLISHED} is missing"));
        }
        repo::write(&published, &json_schema_text())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_schemas_are_fresh() {
        assert_eq!(super::run(true), Ok(()));
    }
}
