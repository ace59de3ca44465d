//! `throughline convert`: one payload.

use crate::args::ConvertArguments;
use crate::conversion::{Conversion, Options};
use crate::error::CliError;
use crate::input::{Source, option_file};
use crate::output::{print_bytes, print_json, report};
use std::path::Path;

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the exit code.
pub fn run(arguments: &ConvertArguments) -> Result<u8, CliError> {
    let source = Source::parse(arguments.file.as_deref().unwrap_or(Path::new("-")));
    if arguments.batch {
        return super::convert_batch::run(&source);
    }
    let (Some(kind), Some(from)) = (&arguments.kind, &arguments.from) else {
        return Err(CliError::usage("convert needs --kind and --from, or --batch"));
    };
    let conversion = Conversion::new(kind, from, arguments.to.as_deref(), options(arguments)?).map_err(without_place)?;
    let result = conversion.run(&source.read()?)?;
    if arguments.raw {
        if let Some(loss) = &result.loss {
            report(loss);
        }
        print_bytes(
            result
                .output
                .as_ref()
                .map(crate::report::Output::to_wire)
                .unwrap_or_default()
                .as_bytes(),
        )?;
    } else {
        print_json(&result)?;
    }
    Ok(result.exit)
}

fn options(arguments: &ConvertArguments) -> Result<Options, CliError> {
    Ok(Options {
        requirements: read("--requirements", arguments.requirements.as_deref())?.unwrap_or_default(),
        capabilities: read("--capabilities", arguments.capabilities.as_deref())?.unwrap_or_default(),
        source_owner: read("--source-owner", arguments.source_owner.as_deref())?,
        target_owner: read("--target-owner", arguments.target_owner.as_deref())?,
        model: arguments.model.clone(),
        target_model: arguments.target_model.clone(),
        dialect: arguments.dialect.clone(),
        target_dialect: arguments.target_dialect.clone(),
        client_version: arguments.client_version.clone(),
        lines: arguments.lines,
    })
}

fn read<T: serde::de::DeserializeOwned>(option: &str, path: Option<&Path>) -> Result<Option<T>, CliError> {
    path.map(|path| option_file(option, path)).transpose()
}

/// Places of a batch line mean nothing to somebody who wrote options.
fn without_place(mut error: CliError) -> CliError {
    error.path = None;
    error
}
