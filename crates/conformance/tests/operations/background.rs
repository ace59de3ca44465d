//! CONF-04: background operations survive a disconnect and touch retention only on committed mutation. CONF-05: many clients
//! consume and reconnect without stealing events.

use crate::support::*;
use std::sync::atomic::Ordering;
use throughline_engine::{ItemQuery, OperationQuery};
use throughline_format::{OperationState, clause};

#[tokio::test]
async fn a_background_operation_survives_its_client_and_moves_the_clock_only_by_what_it_commits() {
    clause!("CONF-04");
    for home in homes() {
        let world = World::open(&home, 1);
        let feed = world.live();
        let turn = world.begin(native(&[], &[said("count")])).await;
        let (id, conversation) = (turn.operation_id.clone(), turn.conversation_id.clone());
        // The client goes away; nothing of the operation does.
        drop(turn);
        assert_eq!(world.touched(&conversation).await, 0);

        // Six days later the provider says something: committed, and so the clock moves.
        world.clock.0.fetch_add(6 * DAY, Ordering::SeqCst);
        send(&feed, &message_start());
        send_all(&feed, &text(0, "one"));
        while world.engine.operation(&me(), &id).await.unwrap().last_sequence < 5 {
            tokio::task::yield_now().await;
        }
        let (touched, before) = (
            world.touched(&conversation).await,
            world.engine.operation(&me(), &id).await.unwrap().last_sequence,
        );
        assert_eq!(touched, 6 * DAY);

        // Polling, reading, subscribing, listing and cleaning do not.
        world.clock.0.fetch_add(3 * DAY, Ordering::SeqCst);
        world.events(&id, 0, 3).await;
        world.engine.operation(&me(), &id).await.unwrap();
        world.engine.result(&me(), &id).await.unwrap();
        world.engine.losses(&me(), &id).await.unwrap();
        world.engine.conversation(&me(), &conversation).await.unwrap();
        world.engine.export(&me(), &conversation).await.unwrap();
        world
            .engine
            .items(
                &me(),
                &conversation,
                ItemQuery {
                    limit: 10,
                    ..ItemQuery::default()
                },
            )
            .await
            .unwrap();
        let query = OperationQuery {
            limit: 10,
            ..OperationQuery::default()
        };
        assert_eq!(world.engine.operations(&me(), query).await.unwrap().operations.len(), 1);
        world.engine.clean().await.unwrap();
        assert_eq!(world.touched(&conversation).await, touched);
        assert_eq!(world.engine.operation(&me(), &id).await.unwrap().last_sequence, before);
        assert_eq!(
            world.state(&id).await,
            OperationState::Running,
            "an old scope with a running operation stays"
        );

        send_all(&feed, &stop("end_turn"));
        world.until(&id, OperationState::Completed).await;
        assert_eq!(world.touched(&conversation).await, 9 * DAY);
        let result = world.engine.result(&me(), &id).await.unwrap().unwrap();
        assert_eq!(result.output[0].parts()[0].as_text(), Some("one"));

        // Now it is like any other: a week later it is gone.
        world.clock.0.fetch_add(8 * DAY, Ordering::SeqCst);
        world.engine.clean().await.unwrap();
        assert_eq!(world.engine.operation(&me(), &id).await.unwrap_err().code, "not-found.resource");
        world.close(&home).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_read_and_come_back_and_each_sees_everything_once() {
    clause!("CONF-05");
    for home in homes() {
        let world = std::sync::Arc::new(World::open(&home, 1));
        let feed = world.live();
        let id = world.begin(native(&[], &[said("tell me a long story")])).await.operation_id;
        let readers: Vec<_> = (0..12_u64)
            .map(|reader| {
                let (world, id) = (std::sync::Arc::clone(&world), id.clone());
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    // Each reader leaves after another number of events and comes back where it was.
                    loop {
                        let after = seen.last().map_or(0, |(sequence, _)| *sequence);
                        let mut subscription = world.engine.subscribe(&me(), &id, after).await.unwrap();
                        for _ in 0..=reader {
                            let Some(delivery) = subscription.next().await.unwrap() else {
                                return seen;
                            };
                            seen.push((delivery.sequence, delivery.bytes.clone()));
                        }
                    }
                })
            })
            .collect();
        send(&feed, &message_start());
        for index in 0..60 {
            send_all(&feed, &text(index, "and then "));
            if index % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        send_all(&feed, &stop("end_turn"));
        let mut seen = Vec::new();
        for reader in readers {
            seen.push(reader.await.unwrap());
        }
        for one in &seen {
            assert!(one.iter().map(|(sequence, _)| *sequence).eq(1..=one.len() as u64));
            assert_eq!(one, &seen[0], "the same bytes for everybody");
        }
        assert!(seen[0].last().unwrap().1.starts_with(br#"{"kind":"stream.completed""#));
        world.close(&home).await;
    }
}
