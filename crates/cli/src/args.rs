//! The command line's grammar.

use clap::{Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// One conversation, any provider, nothing lost.
#[derive(Debug, Parser)]
#[command(name = "throughline", version, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Decodes a payload to Unified v2 and, with --to, projects it to another protocol.
    Convert(Box<ConvertArguments>),
    /// Folds a stream to its result and prints the fingerprints.
    Fold(FoldArguments),
    /// Prints the SHA-256 of a record's canonical form.
    Fingerprint(FingerprintArguments),
    /// Checks records against the format and lists everything that is wrong.
    Validate(ValidateArguments),
    /// Prints the format as JSON Schema or as TypeScript declarations.
    Schema(SchemaArguments),
    /// Sessions of coding agents: convert, import, list, show, export, resume.
    Session(crate::commands::session::SessionArguments),
    /// Reads the journal of a store.
    Conversation(crate::commands::conversation::ConversationArguments),
    /// Checks, copies and cleans a store, and changes its key.
    Db(crate::commands::db::DbArguments),
    /// Makes, lists and revokes the keys of a gateway's clients.
    Key(crate::commands::key::KeyArguments),
    /// Runs the gateway.
    Serve(crate::commands::serve::ServeArguments),
}

/// Arguments of `convert`.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct ConvertArguments {
    /// What the payload is: request, response or stream.
    #[arg(long, value_name = "KIND", required_unless_present = "batch")]
    pub kind: Option<String>,
    /// Protocol of the payload.
    #[arg(long, value_name = "PROTOCOL", required_unless_present = "batch")]
    pub from: Option<String>,
    /// Protocol to project to.
    #[arg(long, value_name = "PROTOCOL")]
    pub to: Option<String>,
    /// Print only the target body (SSE for a stream); the loss report goes to stderr.
    #[arg(long, requires = "to")]
    pub raw: bool,
    /// JSON file: strengths by pointer into the payload, such as {"/tools/0/function/strict": "required"}.
    #[arg(long, value_name = "FILE")]
    pub requirements: Option<PathBuf>,
    /// JSON file: overrides of the target's capability table.
    #[arg(long, value_name = "FILE", requires = "to")]
    pub capabilities: Option<PathBuf>,
    /// JSON file: whose private state the payload holds.
    #[arg(long, value_name = "FILE")]
    pub source_owner: Option<PathBuf>,
    /// JSON file: to whom the projection goes.
    #[arg(long, value_name = "FILE")]
    pub target_owner: Option<PathBuf>,
    /// Model of the payload, where its URL carries it.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Model of the projection; default: the payload's.
    #[arg(long, value_name = "MODEL")]
    pub target_model: Option<String>,
    /// Dialect of the payload, for what it cannot show.
    #[arg(long, value_name = "DIALECT")]
    pub dialect: Option<String>,
    /// Dialect of the projection.
    #[arg(long, value_name = "DIALECT")]
    pub target_dialect: Option<String>,
    /// Major of the client's SDK that the projection is for: 5, 6 or 7 (vercel-uimessage; default 7).
    #[arg(long, value_name = "MAJOR", requires = "to", conflicts_with = "target_dialect")]
    pub client_version: Option<String>,
    /// The stream is one JSON chunk a line instead of SSE.
    #[arg(long)]
    pub lines: bool,
    /// Many conversions: one JSON object {id, kind, from, to?, body, ...} a line, one result a line.
    #[arg(long, conflicts_with_all = ["kind", "from", "to", "raw", "requirements", "capabilities", "source_owner", "target_owner", "model", "target_model", "dialect", "target_dialect", "client_version", "lines"])]
    pub batch: bool,
    /// The payload; - is standard input, which is also the default with --batch.
    #[arg(value_name = "FILE", required_unless_present = "batch")]
    pub file: Option<PathBuf>,
}

/// Arguments of `fold`.
#[derive(Debug, clap::Args)]
pub struct FoldArguments {
    /// Protocol of the stream.
    #[arg(long, value_name = "PROTOCOL")]
    pub from: String,
    /// Feed the stream in pieces of this many bytes.
    #[arg(long, value_name = "BYTES")]
    pub split: Option<NonZeroUsize>,
    /// Model of the stream, where its URL carries it.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Dialect of the stream, for what it cannot show.
    #[arg(long, value_name = "DIALECT")]
    pub dialect: Option<String>,
    /// The stream is one JSON chunk a line instead of SSE.
    #[arg(long)]
    pub lines: bool,
    /// The stream; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `fingerprint`.
#[derive(Debug, clap::Args)]
pub struct FingerprintArguments {
    /// A Unified v2 record; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `validate`.
#[derive(Debug, clap::Args)]
pub struct ValidateArguments {
    /// A Unified v2 record, a list of records, or one record a line; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
pub struct SchemaArguments {
    /// What to print.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = SchemaFormat::JsonSchema)]
    pub format: SchemaFormat,
}

/// A language of schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaFormat {
    /// JSON Schema, draft 2020-12: one bundle of all types.
    JsonSchema,
    /// TypeScript declarations.
    #[value(name = "typescript")]
    TypeScript,
}
