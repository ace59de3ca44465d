//! Where the agents of this machine keep their sessions. Only here is a home directory looked up for them.

use crate::data::variable;
use std::path::{Path, PathBuf};

/// The folder of a runtime's data, whether it is there or not; none without a home directory.
pub(super) fn root(runtime: &str) -> Option<PathBuf> {
    let home = || variable("HOME").map(PathBuf::from);
    match runtime {
        "claude-code" => variable("CLAUDE_CONFIG_DIR")
            .map(PathBuf::from)
            .or_else(|| Some(home()?.join(".claude"))),
        "codex" => variable("CODEX_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".codex"))),
        "opencode" => {
            let data = variable("XDG_DATA_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(home()?.join(".local").join("share")));
            Some(data?.join("opencode"))
        }
        "gemini-cli" => Some(home()?.join(".gemini")),
        _ => None,
    }
}

/// The folders below it that hold sessions, as far as they are there.
pub(super) fn sessions(runtime: &str) -> Vec<PathBuf> {
    let Some(root) = root(runtime) else { return Vec::new() };
    let folders = match runtime {
        "claude-code" => vec![root.join("projects")],
        "codex" => vec![root.join("sessions"), root.join("archived_sessions")],
        "gemini-cli" => vec![root.join("tmp")],
        _ => vec![root],
    };
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// The folder in which Gemini CLI keeps the chats of a working folder: the one that it gave it, else the digest of its path.
pub(super) fn gemini_project(root: &Path, cwd: &str) -> String {
    let known = std::fs::read(root.join("projects.json")).ok();
    let known: Option<serde_json::Value> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let named = known.as_ref().and_then(|known| {
        let projects = known.get("projects").unwrap_or(known);
        projects.get(cwd)?.as_str()
    });
    // A name is one folder, whatever the file says.
    let named = named.filter(|name| !name.is_empty() && !name.contains(['/', '\\']) && *name != "..");
    named.map_or_else(|| throughline_agents::gemini_cli::project(cwd), str::to_owned)
}
