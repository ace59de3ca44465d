//! From SQLite's errors to the store's. No message of SQLite that may quote a value goes out.

use rusqlite::ErrorCode;
use throughline_store::StoreError;

/// What a row function gives.
pub(crate) type Result<T> = std::result::Result<T, StoreError>;

/// The detail when SQLite itself found the file damaged, in contrast to a single row that holds nonsense.
pub(crate) const MALFORMED: &str = "SQLite found a malformed page";

/// Sorts an error of SQLite.
pub(crate) fn sql(error: rusqlite::Error) -> StoreError {
    match &error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => StoreError::Full,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => StoreError::Busy,
            ErrorCode::DatabaseCorrupt => StoreError::Corrupt {
                detail: MALFORMED.to_owned(),
            },
            ErrorCode::NotADatabase => StoreError::Corrupt {
                detail: "the file is no SQLite database".to_owned(),
            },
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::Io {
                action: "using the database",
                detail: format!("SQLite error {}", failure.extended_code),
            },
            code => StoreError::internal(format!("SQLite error {} ({code:?})", failure.extended_code)),
        },
        // Value errors would quote what they found; their kind is enough.
        rusqlite::Error::FromSqlConversionFailure(column, kind, _) => StoreError::Corrupt {
            detail: format!("column {column} holds an unexpected {kind}"),
        },
        rusqlite::Error::InvalidColumnType(column, name, kind) => StoreError::Corrupt {
            detail: format!("column {column} ({name}) holds an unexpected {kind}"),
        },
        rusqlite::Error::IntegralValueOutOfRange(column, _) => StoreError::Corrupt {
            detail: format!("column {column} is out of range"),
        },
        _ => StoreError::internal(format!("SQLite: {}", kind(&error))),
    }
}

/// Whether the writer must open the file anew before it goes on: its connection may be in any state.
pub(crate) fn is_fatal(error: &StoreError) -> bool {
    match error {
        StoreError::Full | StoreError::Io { .. } | StoreError::Busy => true,
        StoreError::Corrupt { detail } => detail == MALFORMED,
        _ => false,
    }
}

/// The variant of an error without its content.
fn kind(error: &rusqlite::Error) -> String {
    let text = format!("{error:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}
