//! One run: lives of one engine after another over one store, and what happens in them.

use crate::client::Client;
use crate::figures::Figures;
use crate::hands::{self, Hands};
use crate::invariants;
use crate::provider::Account;
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throughline_engine::ports::{Clock, IdKind, IdSource, Router, Target};
use throughline_engine::{CompactRequest, Engine, EngineConfig, EngineLimits, Principal, Turn, TurnRequest};
use throughline_format::{ErrorCategory, OperationState, ProtocolFamily, Timestamp, UnifiedError, UnifiedId, UnifiedResourceOwner};
use throughline_protocols::{Capabilities, codec_of};
use throughline_store::{
    ConversationFilter, KeyRing, MemorySettings, MemoryStore, OperationFilter, RandomSource, StoreError, UnifiedStateStore, Vault,
};

const DAY: i64 = 86_400_000;
const RETENTION_DAYS: i64 = 7;

/// A small generator (SplitMix64): the seed is everything that it knows.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// One attachment of a subscriber: after which event, and what it got.
pub struct Attachment {
    pub after: u64,
    pub got: Vec<(u64, Bytes)>,
}

/// Everything that outlives a process.
#[derive(Default)]
pub struct State {
    pub minted: u64,
    pub secrets: Vec<(String, &'static str)>,
    pub violations: Vec<String>,
    /// Each question with all texts of its client's history, in order.
    pub asks: BTreeMap<String, Vec<String>>,
    /// Texts that a summary may stand for.
    pub covered: BTreeSet<String>,
    /// Operations in the order in which they began.
    pub operations: Vec<UnifiedId>,
    /// Those whose tools this process executes.
    pub natives: Vec<UnifiedId>,
    /// Calls that a tool was run for, with their operation.
    pub ran: BTreeSet<(UnifiedId, String)>,
    pub attachments: BTreeMap<UnifiedId, Vec<Attachment>>,
    pub figures: Figures,
    rng: Option<Rng>,
}

impl State {
    /// What a provider is sent holds the client's whole history in order, or the provider holds it already.
    pub fn check_history(&mut self, family: &ProtocolFamily, body: &Value, text: &str) {
        let Some(ask) = self.asks.keys().rev().find(|ask| text.contains(ask.as_str())) else {
            self.violations.push(format!("{family} was asked nothing: {text}"));
            return;
        };
        let goes_on = body.get("previous_response_id").is_some();
        let mut from = 0;
        for said in self.asks[ask].iter().filter(|said| !goes_on && !self.covered.contains(*said)) {
            match text[from..].find(said.as_str()) {
                Some(at) => from += at,
                None => self.violations.push(format!("{family} was not told {said:?} in its place: {text}")),
            }
        }
    }
}

pub struct Shared(Mutex<State>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A generator of its own for one piece of work.
    pub fn rng(&self) -> Rng {
        Rng(self.lock().rng.as_mut().unwrap().next())
    }
}

pub struct SimClock(pub AtomicI64);

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

struct SimIds(AtomicU64);

impl IdSource for SimIds {
    fn next(&self, kind: IdKind) -> UnifiedId {
        UnifiedId::parse(&format!("{}{:08}", kind.prefix(), self.0.fetch_add(1, Ordering::SeqCst))).unwrap()
    }
}

struct SimRandom(Mutex<Rng>);

impl RandomSource for SimRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), StoreError> {
        let mut rng = self.0.lock().unwrap();
        bytes.fill_with(|| rng.next().to_le_bytes()[0]);
        Ok(())
    }
}

/// The world of one seed.
pub struct World {
    pub shared: Arc<Shared>,
    pub store: Arc<dyn UnifiedStateStore>,
    pub clock: Arc<SimClock>,
    ids: Arc<SimIds>,
    vault: Arc<Vault>,
    accounts: BTreeMap<&'static str, Arc<Account>>,
}

impl World {
    fn new(seed: u64) -> Arc<Self> {
        let state = State {
            rng: Some(Rng(seed)),
            ..State::default()
        };
        let shared = Arc::new(Shared(Mutex::new(state)));
        let ring = KeyRing::from_json(br#"{"current":1,"keys":[{"version":1,"createdAt":"2026-01-01T00:00:00.000Z","key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}]}"#).unwrap();
        let account = |family, name| (name, Account::new(family, name, &shared));
        Arc::new(Self {
            store: Arc::new(MemoryStore::new(MemorySettings::default())),
            clock: Arc::new(SimClock(AtomicI64::new(1_790_000_000_000))),
            ids: Arc::new(SimIds(AtomicU64::new(1))),
            vault: Arc::new(Vault::new(ring, Arc::new(SimRandom(Mutex::new(Rng(seed ^ 1))))).unwrap()),
            accounts: BTreeMap::from([
                account(ProtocolFamily::AnthropicMessages, "claude"),
                account(ProtocolFamily::AnthropicMessages, "other-claude"),
                account(ProtocolFamily::OpenAiChat, "gpt"),
                account(ProtocolFamily::OpenAiResponses, "o"),
                account(ProtocolFamily::OpenAiResponses, "other-o"),
            ]),
            shared,
        })
    }

    pub fn principal() -> Principal {
        Principal::new("simulated")
    }

    fn engine(&self) -> Arc<Engine> {
        let engine = Engine::new(EngineConfig {
            store: Arc::clone(&self.store),
            vault: Arc::clone(&self.vault),
            clock: Arc::<SimClock>::clone(&self.clock),
            ids: Arc::<SimIds>::clone(&self.ids),
            limits: EngineLimits {
                // So small that subscribers fall out of it and read the store.
                ring_events: 6,
                // So few that what may wait does.
                concurrent_operations: 2,
                ..EngineLimits::default()
            },
        })
        .unwrap();
        engine.register_tools(Arc::new(Hands(Arc::clone(&self.shared))));
        engine
    }

    fn target(&self, name: &str) -> Target {
        let account = &self.accounts[name];
        let codec = codec_of(&account.family).unwrap();
        Target {
            provider: name.to_owned(),
            owner: UnifiedResourceOwner::of_account(
                codec.profile(),
                account.family.to_string(),
                self.vault.credential_fingerprint(name.as_bytes()).unwrap(),
                "e".repeat(32),
            ),
            capabilities: Capabilities::of(codec.capabilities()),
            codec,
            model: name.to_owned(),
            model_provider: None,
            upstream: Arc::<Account>::clone(account),
            requirements: Vec::new(),
            dialect: None,
            reasoning_tags: false,
            client_state_is_ours: false,
        }
    }

    /// A turn; `None` when so many run that it is refused.
    async fn begin(&self, engine: &Arc<Engine>, request: TurnRequest) -> Option<Turn> {
        let turn = match engine.begin(request, self).await {
            Ok(turn) => turn,
            Err(refused) => {
                assert_eq!(refused.error.code, "limit.concurrency", "{:?}", refused.error);
                return None;
            }
        };
        let begun = self.store.operation(&turn.operation_id).await.unwrap().unwrap();
        let mut state = self.shared.lock();
        state.figures.queued += u64::from(begun.state == OperationState::Queued);
        state.operations.push(turn.operation_id.clone());
        state.attachments.insert(turn.operation_id.clone(), Vec::new());
        Some(turn)
    }

    /// An operation of whoever executes tools here; its answer comes whether somebody reads it or not.
    async fn native(&self, engine: &Arc<Engine>, rng: &mut Rng) {
        let before = self.shared.lock().natives.last().cloned().filter(|_| rng.chance(40));
        let conversation = match before {
            Some(id) => self.store.operation(&id).await.unwrap().map(|operation| operation.conversation_id),
            None => None,
        };
        let request = hands::ask(&self.shared, conversation, rng);
        self.shared.lock().figures.turns += 1;
        if let Some(turn) = self.begin(engine, request).await {
            self.shared.lock().natives.push(turn.operation_id);
        }
    }

    /// A turn, and whoever watches it.
    async fn turn(self: &Arc<Self>, engine: &Arc<Engine>, client: &Arc<Mutex<Client>>, rng: &mut Rng) {
        let Some(request) = client.lock().unwrap().ask(&self.shared, rng) else {
            return;
        };
        self.shared.lock().figures.turns += 1;
        let Some(turn) = self.begin(engine, request).await else {
            client.lock().unwrap().is_busy = false;
            return;
        };
        client.lock().unwrap().began(&turn);
        // The requesting client may go away; the answer comes all the same, and the client never learns of it.
        let leaves_after = rng.chance(15).then(|| rng.below(20));
        let (world, client) = (Arc::clone(self), Arc::clone(client));
        tokio::spawn(async move { client_reads(&world, &client, turn, leaves_after).await });
    }

    /// Another subscriber, or one that comes back where it left.
    fn attach(self: &Arc<Self>, engine: &Arc<Engine>, rng: &mut Rng) {
        let (id, after) = {
            let state = self.shared.lock();
            if state.operations.is_empty() {
                return;
            }
            let recent = state.operations.len() - rng.below(state.operations.len().min(4) as u64) as usize - 1;
            let id = state.operations[recent].clone();
            let left: Vec<u64> = state.attachments[&id]
                .iter()
                .filter_map(|a| a.got.last().map(|(n, _)| *n))
                .collect();
            let after = if left.is_empty() || rng.chance(40) {
                0
            } else {
                left[rng.below(left.len() as u64) as usize]
            };
            (id, after)
        };
        let leaves_after = rng.chance(50).then(|| rng.below(12));
        let (world, engine) = (Arc::clone(self), Arc::clone(engine));
        tokio::spawn(async move {
            let Ok(mut subscription) = engine.subscribe(&Self::principal(), &id, after).await else {
                return;
            };
            let index = world.shared.lock().open(&id, after);
            let mut left = leaves_after;
            while left != Some(0)
                && let Ok(Some(delivery)) = subscription.next().await
            {
                world.shared.lock().saw(&id, index, delivery.sequence, delivery.bytes);
                left = left.map(|n| n - 1);
            }
        });
    }

    async fn cancel(&self, engine: &Engine, rng: &mut Rng) {
        let id = {
            let state = self.shared.lock();
            let at = rng.below(state.operations.len() as u64) as usize;
            state.operations.get(at).cloned()
        };
        if let Some(id) = id
            && engine.cancel(&Self::principal(), &id, None).await.is_ok_and(|o| o.accepted)
        {
            self.shared.lock().figures.cancelled += 1;
        }
    }

    async fn compact(&self, engine: &Engine, client: &Mutex<Client>, rng: &mut Rng) {
        let Some((conversation_id, branch_id)) = client.lock().unwrap().place.clone() else {
            return;
        };
        let Ok(items) = self.store.branch_items(&branch_id, throughline_store::ItemPage::default()).await else {
            return;
        };
        let at = rng.below(items.len() as u64) as usize;
        let Some(through) = items.get(at) else { return };
        let part = r#"{"partId": "x", "kind": "text", "text": "what was said before"}"#;
        let request = CompactRequest {
            conversation_id,
            branch_id: Some(branch_id),
            through_item_id: through.id.clone(),
            summary: vec![serde_json::from_str(part).unwrap()],
        };
        if engine.compact(&Self::principal(), request).await.is_ok() {
            let mut state = self.shared.lock();
            state.figures.compacted += 1;
            let covered = items[..=at]
                .iter()
                .flat_map(throughline_format::UnifiedItem::parts)
                .filter_map(|p| p.as_text().map(str::to_owned));
            state.covered.extend(covered);
        }
    }

    /// Time goes on by days, and what nobody changed goes.
    async fn clean(&self, engine: &Engine, rng: &mut Rng) {
        self.clock.0.fetch_add(DAY * (1 + rng.below(5) as i64), Ordering::SeqCst);
        let before = self.conversations().await;
        let held: BTreeSet<UnifiedId> = self.active().await;
        let cutoff = Timestamp::from_millis(self.clock.0.load(Ordering::SeqCst) - RETENTION_DAYS * DAY);
        engine.clean().await.unwrap();
        let after = self.conversations().await;
        for (id, updated) in before {
            let goes = updated <= cutoff && !held.contains(&id);
            // The clock goes on while it is read; whoever stands within that second may go or stay.
            let is_close = (updated.millis() - cutoff.millis()).abs() < 1_000;
            assert!(
                is_close || goes != after.contains_key(&id),
                "{id}: updated {updated}, cutoff {cutoff}, held {held:?}"
            );
        }
        let mut state = self.shared.lock();
        let mut gone = Vec::new();
        for id in state.operations.clone() {
            if futures_util::FutureExt::now_or_never(self.store.operation(&id))
                .unwrap()
                .unwrap()
                .is_none()
            {
                gone.push(id);
            }
        }
        state.figures.removed += gone.len() as u64;
        state.operations.retain(|id| !gone.contains(id));
        state.natives.retain(|id| !gone.contains(id));
        state.attachments.retain(|id, _| !gone.contains(id));
    }

    pub async fn conversations(&self) -> BTreeMap<UnifiedId, Timestamp> {
        let all = self.store.conversations(ConversationFilter::default()).await.unwrap();
        all.into_iter().map(|c| (c.conversation_id, c.last_updated_at)).collect()
    }

    async fn in_state(&self, state: OperationState) -> Vec<UnifiedId> {
        let filter = OperationFilter {
            states: vec![state],
            ..OperationFilter::default()
        };
        let all = self.store.operations(filter).await.unwrap();
        all.into_iter().map(|operation| operation.operation_id).collect()
    }

    async fn active(&self) -> BTreeSet<UnifiedId> {
        let filter = OperationFilter {
            states: vec![OperationState::Queued, OperationState::Running, OperationState::RequiresAction],
            ..OperationFilter::default()
        };
        let all = self.store.operations(filter).await.unwrap();
        all.into_iter().map(|o| o.conversation_id).collect()
    }

    /// Reading changes no time.
    async fn read(&self, engine: &Engine) {
        let before = self.conversations().await;
        let operations = self.shared.lock().operations.clone();
        for id in operations.iter().rev().take(3) {
            let _ = engine.operation(&Self::principal(), id).await;
            let _ = engine.result(&Self::principal(), id).await;
            drop(engine.subscribe(&Self::principal(), id, 0).await);
        }
        assert_eq!(self.conversations().await, before);
    }

    async fn live(self: &Arc<Self>, clients: &[Arc<Mutex<Client>>], rng: &mut Rng, is_last: bool) {
        let engine = self.engine();
        let held = self.in_state(OperationState::RequiresAction).await;
        let report = engine.recover(self.as_ref()).await.unwrap();
        assert_eq!(report.failed, 0);
        {
            let figures = &mut self.shared.lock().figures;
            figures.interrupted += report.interrupted as u64;
            figures.resumed += report.resumed as u64;
            figures.waited += report.waiting as u64;
            figures.held += held.len() as u64;
        }
        for id in held {
            let state = self.store.operation(&id).await.unwrap().unwrap().state;
            assert_ne!(state, OperationState::Failed, "{id} waited for a decision, and the restart took it");
        }
        let steps = if is_last { 0 } else { 4 + rng.below(32) };
        for _ in 0..steps {
            self.clock.0.fetch_add(1 + rng.below(2_000) as i64, Ordering::SeqCst);
            let client = &clients[rng.below(clients.len() as u64) as usize];
            match rng.below(100) {
                0..32 => self.turn(&engine, client, rng).await,
                32..46 => self.native(&engine, rng).await,
                46..66 => hands::decide(self, &engine, rng).await,
                66..74 => hands::result(self, &engine, rng).await,
                74..80 => self.attach(&engine, rng),
                80..84 => self.cancel(&engine, rng).await,
                84..88 => self.compact(&engine, client, rng).await,
                88..92 => self.clean(&engine, rng).await,
                _ => self.read(&engine).await,
            }
            tokio::time::sleep(Duration::from_millis(rng.below(80))).await;
        }
        if is_last {
            // Whatever hangs is cancelled; then everything ends.
            tokio::time::sleep(Duration::from_mins(1)).await;
            let operations = self.shared.lock().operations.clone();
            for id in operations {
                let _ = engine.cancel(&Self::principal(), &id, None).await;
            }
            while engine.running() > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        } else if rng.chance(30) {
            engine.shutdown().await;
        } else {
            self.shared.lock().figures.crashed += 1;
        }
    }
}

impl State {
    pub fn open(&mut self, id: &UnifiedId, after: u64) -> usize {
        // Its conversation may have been removed meanwhile.
        let list = self.attachments.entry(id.clone()).or_default();
        self.figures.reattached += u64::from(after > 0);
        list.push(Attachment { after, got: Vec::new() });
        list.len() - 1
    }

    pub fn saw(&mut self, id: &UnifiedId, index: usize, sequence: u64, bytes: Bytes) {
        if let Some(attachment) = self.attachments.get_mut(id).and_then(|list| list.get_mut(index)) {
            attachment.got.push((sequence, bytes));
        }
    }
}

async fn client_reads(world: &World, client: &Mutex<Client>, mut turn: Turn, leaves_after: Option<u64>) {
    let id = turn.operation_id.clone();
    let index = world.shared.lock().open(&id, 0);
    let mut left = leaves_after;
    while left != Some(0) {
        match turn.subscription.next().await {
            Ok(Some(delivery)) => world.shared.lock().saw(&id, index, delivery.sequence, delivery.bytes),
            Ok(None) => {
                let result = world.store.result(&id).await.unwrap();
                client.lock().unwrap().hear(&turn, result.as_ref());
                return;
            }
            Err(_) => break,
        }
        left = left.map(|n| n - 1);
    }
    client.lock().unwrap().is_busy = false;
}

impl Router for World {
    /// A model is an account, and after `>` the account that is tried next.
    fn route(&self, _: &ProtocolFamily, model: &str) -> Result<Vec<Target>, UnifiedError> {
        if model.split('>').any(|name| !self.accounts.contains_key(name)) {
            return Err(UnifiedError::new(ErrorCategory::NotFound, "model", "no route"));
        }
        Ok(model.split('>').map(|name| self.target(name)).collect())
    }
}

/// Runs a seed and checks everything that must hold.
pub fn run(seed: u64) -> Figures {
    let world = World::new(seed);
    let mut rng = world.shared.rng();
    let clients: Vec<_> = (0..2 + rng.below(3)).map(|_| Arc::new(Mutex::new(Client::new(&mut rng)))).collect();
    let lives = 1 + rng.below(4);
    for life in 0..=lives {
        // The tasks of a process die with its runtime, wherever they are.
        let process = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        process.block_on(world.live(&clients, &mut rng, life == lives));
        drop(process);
        for client in &clients {
            client.lock().unwrap().is_busy = false;
        }
    }
    let process = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    process.block_on(invariants::check(&world));
    let mut figures = world.shared.lock().figures.clone();
    figures.digest = process.block_on(invariants::digest(&world));
    figures
}
