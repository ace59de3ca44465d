//! `throughline schema`: the format for other languages.

use crate::args::{SchemaArguments, SchemaFormat};
use crate::error::CliError;
use crate::output::print_bytes;
use throughline_format::schema::{json_schema_text, typescript};

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the exit code.
pub fn run(arguments: &SchemaArguments) -> Result<u8, CliError> {
    let text = match arguments.format {
        SchemaFormat::JsonSchema => json_schema_text(),
        SchemaFormat::TypeScript => typescript(),
    };
    print_bytes(text.as_bytes())?;
    Ok(0)
}
