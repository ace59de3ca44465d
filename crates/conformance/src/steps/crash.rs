//! Crashes: the files as they are after every single write of a step.
//!
//! SQLite appends the pages of a transaction to its log one frame after the other, and a frame counts only when the whole
//! transaction is there. A crash after the k-th write leaves the log with k frames, so cutting a copy of the log after every
//! frame, and once in the middle of each, gives every state that a crash in the step can leave.

use super::files::{copy_as_after_a_crash, database, folder};
use super::world::World;
use super::{Halt, files};
use crate::query::word;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Bytes of the log's header, and of the header of each frame.
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;
/// Most crash points that are tried.
const MOST_POINTS: usize = 200;

fn wrong(error: impl std::fmt::Display) -> Halt {
    Halt::Wrong(error.to_string())
}

fn log(folder: &Path) -> PathBuf {
    let mut name = database(folder).into_os_string();
    name.push("-wal");
    name.into()
}

/// Length of the log and its salts, which change when it begins anew.
fn state(folder: &Path) -> Result<(u64, Vec<u8>), Halt> {
    let bytes = std::fs::read(log(folder)).map_err(wrong)?;
    Ok((bytes.len() as u64, bytes.get(16..24).unwrap_or_default().to_vec()))
}

/// Runs the inner step and replaces the world by one for each crash point in it. They are opened by `restart`.
pub(crate) async fn at_every_write(worlds: &mut Vec<World>, step: &Value) -> Result<(), Halt> {
    let inner = step
        .get("step")
        .ok_or_else(|| Halt::Unknown("the step to crash in is missing".to_owned()))?;
    if word(inner, "op") != "finish_operation" {
        return Err(Halt::Unknown(format!("no crash is known in {}", word(inner, "op"))));
    }
    let Some(world) = worlds.first_mut() else { return Ok(()) };
    let folder = folder(world)?;
    let (from, salts) = state(&folder)?;
    if let Err(error) = world.finish_operation(inner).await? {
        return Err(Halt::Wrong(format!("the step failed without a crash: {error}")));
    }
    let (to, salts_after) = state(&folder)?;
    if salts != salts_after || to <= from {
        return Err(Halt::Unknown(
            "the log began anew during the step, so its writes cannot be told apart; run the case again".to_owned(),
        ));
    }
    let bytes = std::fs::read(log(&folder)).map_err(wrong)?;
    let page = bytes.get(8..12).and_then(|b| b.try_into().ok()).map_or(4_096, u32::from_be_bytes);
    let frame = u64::from(page) + FRAME_HEADER;
    // A log that was longer before keeps old frames behind the new ones; only whole frames from here on are of the step.
    let mut cuts: Vec<u64> = Vec::new();
    let mut at = from.max(LOG_HEADER);
    while at <= to {
        cuts.push(at);
        if at + frame / 2 < to {
            cuts.push(at + frame / 2);
        }
        at += frame;
    }
    if cuts.len() > MOST_POINTS {
        return Err(Halt::Unknown(format!(
            "{} crash points are more than the {MOST_POINTS} that are tried",
            cuts.len()
        )));
    }
    let mut crashed = Vec::new();
    for cut in cuts {
        let copy = copy_as_after_a_crash(&folder).map_err(wrong)?;
        let file = std::fs::OpenOptions::new().write(true).open(log(copy.path())).map_err(wrong)?;
        file.set_len(cut).map_err(wrong)?;
        drop(file);
        crashed.push(world.after_a_crash(copy).await?);
    }
    let survivors = std::mem::replace(worlds, crashed);
    for world in survivors {
        world.close().await;
    }
    Ok(())
}

/// Kills and starts again. Worlds that come out of a crash were started already.
pub(crate) async fn restart(worlds: &mut Vec<World>) -> Result<(), Halt> {
    if worlds.len() > 1 {
        return Ok(());
    }
    let Some(world) = worlds.pop() else { return Ok(()) };
    let copy = match files::folder(&world).map(|folder| copy_as_after_a_crash(&folder)) {
        Ok(copy) => copy.map_err(wrong)?,
        Err(halt) => {
            worlds.push(world);
            return Err(halt);
        }
    };
    let next = world.after_a_crash(copy).await?;
    world.close().await;
    worlds.push(next);
    Ok(())
}
