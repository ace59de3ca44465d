//! Which step does what.

use super::world::World;
use super::{Halt, crash, files};
use crate::query::word;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use throughline_format::{Timestamp, UnifiedError};

/// Runs a step in every world.
pub(crate) fn step<'a>(worlds: &'a mut Vec<World>, step: &'a Value) -> Pin<Box<dyn Future<Output = Result<(), Halt>> + 'a>> {
    Box::pin(async move {
        let op = word(step, "op");
        match op {
            "crash_at_every_write_of" => return crash::at_every_write(worlds, step).await,
            "restart" => return crash::restart(worlds).await,
            "concurrently" => {
                // Appends of one group are not waited for, so that what follows meets them on their way.
                for inner in step.get("steps").and_then(Value::as_array).into_iter().flatten() {
                    for world in worlds.iter_mut() {
                        let outcome = match word(inner, "op") {
                            "append_event" => world.append_event(inner, false).await?,
                            _ => one(world, inner).await?,
                        };
                        keep(world, inner, outcome)?;
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        for world in worlds.iter_mut() {
            if let Some(at) = step.get("at").and_then(Value::as_str) {
                let at = Timestamp::parse(&whole_millis(at)).map_err(|_| Halt::Unknown(format!("{at:?} is no time")))?;
                world.clock.0.store(at.millis(), Ordering::SeqCst);
            }
            let outcome = one(world, step).await?;
            keep(world, step, outcome)?;
        }
        Ok(())
    })
}

/// `2026-03-01T00:00:00Z` with the milliseconds that the format writes.
pub(crate) fn whole_millis(time: &str) -> String {
    match time.strip_suffix('Z') {
        Some(seconds) if !seconds.contains('.') => format!("{seconds}.000Z"),
        _ => time.to_owned(),
    }
}

/// Remembers what a step gave. An error is the case's to judge, unless the step may not fail and no check asks.
fn keep(world: &mut World, step: &Value, outcome: Result<(), UnifiedError>) -> Result<(), Halt> {
    if let Err(error) = &outcome {
        world.last_error = Some(error.clone());
    } else if step.get("expect_error").and_then(Value::as_bool) == Some(true) {
        return Err(Halt::Wrong(format!("{} went well and must not", word(step, "op"))));
    }
    if let Some(id) = step.get("id").and_then(Value::as_str) {
        world.results.insert(id.to_owned(), outcome);
    }
    Ok(())
}

async fn one(world: &mut World, step: &Value) -> Result<Result<(), UnifiedError>, Halt> {
    match word(step, "op") {
        "create_conversation" => world.create_conversation(word(step, "conversation")).await,
        "append_item" => world.append_item(step).await,
        "parallel_append" => world.parallel_append(step).await,
        "start_operation" => world.start_operation(step).await,
        "append_event" => world.append_event(step, true).await,
        "finish_operation" => world.finish_operation(step).await,
        "cancel_operation" => world.cancel_operation(step).await,
        "attach" => {
            let after = step.get("after_sequence").and_then(Value::as_u64).unwrap_or(0);
            let after = world.sequence_of(word(step, "operation"), after)?;
            world.attach(step, &World::principal_of(step), after).await
        }
        "detach" => world.detach(step).await,
        "issue_cursor" => world.issue_cursor(step),
        "resume_with_cursor" => world.resume_with_cursor(step).await,
        "put_artifact" => files::put_artifact(world, step),
        "ref_artifact" => world.ref_artifact(step).await,
        "read" => {
            let (_, branch) = world.conversation(step)?;
            Ok(world.items(&branch).await.map(|_| ()).map_err(|e| e.to_unified()))
        }
        "list" => {
            let listed = world
                .home
                .store
                .conversations(throughline_store::ConversationFilter::default())
                .await;
            Ok(listed.map(|_| ()).map_err(|e| e.to_unified()))
        }
        "project" => world.project(step).await,
        "replay" => world.replay(step).await,
        "cleanup" => Ok(world.engine.clean().await.map(|_| ())),
        "ingest_response" => world.ingest_response(step).await,
        "upstream_call" => world.upstream_call(step).await,
        "hold_write_lock" => files::hold_write_lock(world, step),
        "wait_lock_released" => files::wait_lock_released(world),
        "corrupt_file" => files::corrupt_file(world, step),
        "close" => Ok(world.home.store.close().await.map_err(|e| e.to_unified())),
        "open" => files::open(world),
        "migrate" => Err(Halt::Unknown(
            "the store has one schema so far, so there is nothing to migrate".to_owned(),
        )),
        other => Err(Halt::Unknown(format!("no step is called {other:?}"))),
    }
}
