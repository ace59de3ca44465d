//! Steps at a store and at running operations, run on the store in memory and on SQLite with a clock that the case sets.
//!
//! Operations run through the engine: its provider is a channel that the steps write to, in the wire form of a codec of the
//! registry. A step or question that nothing in the product answers is "not run", and so is every check after it.

mod ask;
mod crash;
mod dispatch;
mod files;
mod live;
mod world;

use crate::case::Case;
use crate::journal::{BACKENDS, Backend};
use crate::report::{CaseReport, CheckReport, Verdict};
use serde_json::Value;
use std::time::Duration;
use world::World;

/// Why a step could not be run.
pub(crate) enum Halt {
    /// This store has nothing of the kind; the other one has.
    NotHere,
    /// Nothing in the product does it, or the runner does not know it.
    Unknown(String),
    /// It went wrong, and it must not.
    Wrong(String),
}

impl From<String> for Halt {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// How long anything may take that happens in the background.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs every repeat on every store; a check holds when it holds everywhere.
pub(crate) fn run(case: &Case) -> CaseReport {
    let number = case.checks().count();
    let mut found: Vec<Vec<Option<Verdict>>> = vec![Vec::new(); number];
    for backend in BACKENDS {
        for _ in 0..case.input.get("repeat").and_then(Value::as_u64).unwrap_or(1).clamp(1, 1_000) {
            let verdicts = once(case, backend);
            let failed = verdicts.iter().any(|v| matches!(v, Some(Verdict::Fail(_))));
            for (all, one) in found.iter_mut().zip(verdicts) {
                all.push(one.map(|v| name_store(v, backend)));
            }
            if failed {
                break;
            }
        }
    }
    let checks = case.checks().zip(found).map(|((say, _), verdicts)| CheckReport {
        say: say.to_owned(),
        verdict: worst(verdicts).unwrap_or_else(|| Verdict::NotRun("no store has anything of the kind".to_owned())),
    });
    CaseReport {
        id: case.id.clone(),
        checks: checks.collect(),
    }
}

fn name_store(verdict: Verdict, backend: Backend) -> Verdict {
    match verdict {
        Verdict::Fail(why) => Verdict::Fail(format!("{backend:?}: {why}")),
        other => other,
    }
}

/// A failure counts most, then a check that was not run; a store that has nothing of the kind does not count.
fn worst(verdicts: Vec<Option<Verdict>>) -> Option<Verdict> {
    let rank = |v: &Verdict| match v {
        Verdict::Pass => 0,
        Verdict::NotRun(_) => 1,
        Verdict::Fail(_) => 2,
    };
    verdicts.into_iter().flatten().max_by_key(rank)
}

/// One run on one store: a verdict per check, `None` where the store has nothing of the kind.
fn once(case: &Case, backend: Backend) -> Vec<Option<Verdict>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(run_steps(case, backend)),
        Err(error) => case.checks().map(|_| Some(Verdict::NotRun(error.to_string()))).collect(),
    }
}

async fn run_steps(case: &Case, backend: Backend) -> Vec<Option<Verdict>> {
    let checks: Vec<&Value> = case.checks().map(|(_, check)| check).collect();
    let mut verdicts: Vec<Option<Verdict>> = vec![None; checks.len()];
    let mut answered = vec![false; checks.len()];
    let mut worlds = match World::new(case, backend) {
        Ok(world) => vec![world],
        Err(why) => return checks.iter().map(|_| Some(Verdict::NotRun(why.clone()))).collect(),
    };
    let mut halted = None;
    for step in case.input.get("steps").and_then(Value::as_array).into_iter().flatten() {
        halted = dispatch::step(&mut worlds, step).await.err();
        if halted.is_some() {
            break;
        }
        let Some(id) = step.get("id").and_then(Value::as_str) else {
            continue;
        };
        for (index, check) in checks
            .iter()
            .enumerate()
            .filter(|(_, c)| c.get("after").and_then(Value::as_str) == Some(id))
        {
            let mut all = Vec::new();
            for world in &mut worlds {
                all.push(ask::verdict(world, id, check).await);
            }
            // There may be several worlds after a crash; it must hold in each.
            if let (Some(verdict), Some(done)) = (verdicts.get_mut(index), answered.get_mut(index)) {
                *verdict = worst(all);
                *done = true;
            }
        }
    }
    let rest = match halted {
        Some(Halt::NotHere) => None,
        Some(Halt::Unknown(why)) => Some(Verdict::NotRun(why)),
        Some(Halt::Wrong(why)) => Some(Verdict::Fail(why)),
        None => Some(Verdict::NotRun("the check names no step of the case".to_owned())),
    };
    for (verdict, _) in verdicts.iter_mut().zip(answered).filter(|(_, answered)| !answered) {
        verdict.clone_from(&rest);
    }
    for world in worlds {
        world.close().await;
    }
    verdicts
}
