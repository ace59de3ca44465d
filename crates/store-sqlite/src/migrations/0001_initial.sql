-- Everything of one conversation hangs on its number and goes with it, bottom-up and in small steps (no ON DELETE CASCADE).
-- Times are milliseconds since 1970; hashes are 32 bytes; `body` is the canonical record as JSON.

CREATE TABLE store_meta (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT;

CREATE TABLE conversations (
    number            INTEGER PRIMARY KEY,
    conversation_id   TEXT NOT NULL UNIQUE,
    principal_ref     TEXT NOT NULL,
    default_branch_id TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    last_updated_at   INTEGER NOT NULL,
    title             TEXT,
    metadata          TEXT,
    deleted           INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1))
) STRICT;
CREATE INDEX conversations_by_update ON conversations (deleted, last_updated_at, conversation_id);
CREATE INDEX conversations_by_principal ON conversations (principal_ref, deleted, last_updated_at, conversation_id);

CREATE TABLE branches (
    number         INTEGER PRIMARY KEY,
    branch_id      TEXT NOT NULL UNIQUE,
    conversation   INTEGER NOT NULL REFERENCES conversations (number),
    parent         INTEGER REFERENCES branches (number),
    fork_item_id   TEXT,
    fork_sequence  INTEGER NOT NULL CHECK (fork_sequence >= 0),
    head_item_id   TEXT,
    head_sequence  INTEGER NOT NULL CHECK (head_sequence >= fork_sequence),
    created_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX branches_by_conversation ON branches (conversation);
CREATE INDEX branches_by_parent ON branches (parent);

CREATE TABLE journal_items (
    number       INTEGER PRIMARY KEY,
    item_id      TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversations (number),
    branch       INTEGER NOT NULL REFERENCES branches (number),
    sequence     INTEGER NOT NULL CHECK (sequence > 0),
    kind         TEXT NOT NULL,
    body         TEXT NOT NULL,
    UNIQUE (branch, sequence)
) STRICT;
CREATE INDEX journal_items_by_conversation ON journal_items (conversation);

CREATE TABLE journal_revisions (
    number       INTEGER PRIMARY KEY,
    revision_id  TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversations (number),
    item         INTEGER NOT NULL REFERENCES journal_items (number),
    revision     INTEGER NOT NULL CHECK (revision > 0),
    body         TEXT NOT NULL,
    UNIQUE (item, revision)
) STRICT;
CREATE INDEX journal_revisions_by_conversation ON journal_revisions (conversation);

-- The journal is append-only. Only retention removes from it, and only from a conversation that is marked as deleted.
CREATE TRIGGER journal_items_keep BEFORE UPDATE ON journal_items
BEGIN SELECT RAISE (ABORT, 'journal items are append-only'); END;
CREATE TRIGGER journal_revisions_keep BEFORE UPDATE ON journal_revisions
BEGIN SELECT RAISE (ABORT, 'journal revisions are append-only'); END;
CREATE TRIGGER journal_items_stay BEFORE DELETE ON journal_items
WHEN (SELECT deleted FROM conversations WHERE number = OLD.conversation) = 0
BEGIN SELECT RAISE (ABORT, 'journal items are append-only'); END;
CREATE TRIGGER journal_revisions_stay BEFORE DELETE ON journal_revisions
WHEN (SELECT deleted FROM conversations WHERE number = OLD.conversation) = 0
BEGIN SELECT RAISE (ABORT, 'journal revisions are append-only'); END;

-- Numbers are never used again, since they are part of the keys of events.
CREATE TABLE operations (
    number               INTEGER PRIMARY KEY AUTOINCREMENT CHECK (number < 2147483648),
    operation_id         TEXT NOT NULL UNIQUE,
    conversation         INTEGER NOT NULL REFERENCES conversations (number),
    principal_ref        TEXT NOT NULL,
    state                TEXT NOT NULL,
    idempotency_key_hash BLOB,
    body                 TEXT NOT NULL,
    result               TEXT
) STRICT;
CREATE INDEX operations_by_conversation ON operations (conversation, state);
CREATE INDEX operations_by_state ON operations (state);
CREATE INDEX operations_by_principal ON operations (principal_ref);
CREATE INDEX operations_by_key ON operations (idempotency_key_hash) WHERE idempotency_key_hash IS NOT NULL;

-- event_key = operation number << 32 | sequence: the events of an operation are neighbours.
CREATE TABLE stream_events (
    event_key INTEGER PRIMARY KEY,
    body      BLOB NOT NULL
) STRICT;

CREATE TABLE provider_checkpoints (
    number               INTEGER PRIMARY KEY,
    checkpoint_id        TEXT NOT NULL UNIQUE,
    conversation         INTEGER NOT NULL REFERENCES conversations (number),
    branch_id            TEXT NOT NULL,
    journal_head_item_id TEXT NOT NULL,
    owner                TEXT NOT NULL,
    owner_fingerprint    BLOB NOT NULL,
    resource_type        TEXT NOT NULL,
    sealed               BLOB NOT NULL,
    key_version          INTEGER NOT NULL,
    status               TEXT NOT NULL,
    created_at           INTEGER NOT NULL,
    expires_at           INTEGER
) STRICT;
CREATE INDEX provider_checkpoints_by_conversation ON provider_checkpoints (conversation);
CREATE INDEX provider_checkpoints_by_key ON provider_checkpoints (key_version);

CREATE TABLE provider_resources (
    number            INTEGER PRIMARY KEY,
    resource_id       TEXT NOT NULL UNIQUE,
    conversation      INTEGER NOT NULL REFERENCES conversations (number),
    resource_type     TEXT NOT NULL,
    schema            TEXT NOT NULL,
    issuer            TEXT NOT NULL,
    owner             TEXT NOT NULL,
    owner_fingerprint BLOB NOT NULL,
    subject           TEXT,
    payload_hash      BLOB NOT NULL,
    prefix_hash       BLOB,
    sealed            BLOB NOT NULL,
    key_version       INTEGER NOT NULL,
    status            TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    expires_at        INTEGER
) STRICT;
CREATE INDEX provider_resources_by_owner ON provider_resources (conversation, owner_fingerprint);
CREATE INDEX provider_resources_by_payload ON provider_resources (payload_hash);
CREATE INDEX provider_resources_by_key ON provider_resources (key_version);

CREATE TABLE annotations (
    number        INTEGER PRIMARY KEY,
    annotation_id TEXT NOT NULL UNIQUE,
    conversation  INTEGER NOT NULL REFERENCES conversations (number),
    subject       TEXT,
    body          TEXT NOT NULL
) STRICT;
CREATE INDEX annotations_by_conversation ON annotations (conversation, annotation_id);

CREATE TABLE artifacts (
    number        INTEGER PRIMARY KEY,
    artifact_id   TEXT NOT NULL UNIQUE,
    principal_ref TEXT NOT NULL,
    sha256        BLOB NOT NULL,
    body          TEXT NOT NULL,
    ref_count     INTEGER NOT NULL DEFAULT 0 CHECK (ref_count >= 0)
) STRICT;
CREATE INDEX artifacts_by_digest ON artifacts (sha256);

CREATE TABLE artifact_refs (
    number       INTEGER PRIMARY KEY,
    artifact     INTEGER NOT NULL REFERENCES artifacts (number),
    conversation INTEGER NOT NULL REFERENCES conversations (number),
    subject      TEXT NOT NULL,
    UNIQUE (artifact, conversation, subject)
) STRICT;
CREATE INDEX artifact_refs_by_conversation ON artifact_refs (conversation);

-- Keeps a digest from collection while its file is on the way.
CREATE TABLE artifact_pins (
    sha256     BLOB NOT NULL,
    owner      TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (sha256, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE pending_artifact_gc (
    sha256    BLOB PRIMARY KEY NOT NULL,
    marked_at INTEGER NOT NULL
) STRICT;

CREATE TABLE leases (
    number       INTEGER PRIMARY KEY,
    lease_id     TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversations (number),
    holder       TEXT NOT NULL,
    purpose      TEXT NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_by_conversation ON leases (conversation);
CREATE INDEX leases_by_end ON leases (expires_at);

CREATE TABLE lineage_links (
    number          INTEGER PRIMARY KEY,
    conversation    INTEGER NOT NULL REFERENCES conversations (number),
    principal_ref   TEXT NOT NULL,
    link            BLOB NOT NULL,
    lineage_version INTEGER NOT NULL,
    branch_id       TEXT NOT NULL,
    item_id         TEXT NOT NULL,
    ordinal         INTEGER NOT NULL,
    evidence        INTEGER NOT NULL CHECK (evidence IN (0, 1)),
    created_at      INTEGER NOT NULL,
    UNIQUE (link, conversation, branch_id, item_id, ordinal, lineage_version)
) STRICT;
CREATE INDEX lineage_links_by_conversation ON lineage_links (conversation);

CREATE TABLE issued_ids (
    number        INTEGER PRIMARY KEY,
    conversation  INTEGER NOT NULL REFERENCES conversations (number),
    principal_ref TEXT NOT NULL,
    id_hash       BLOB NOT NULL,
    branch_id     TEXT NOT NULL,
    item_id       TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    UNIQUE (id_hash, conversation, item_id)
) STRICT;
CREATE INDEX issued_ids_by_conversation ON issued_ids (conversation);

CREATE TABLE session_keys (
    number        INTEGER PRIMARY KEY,
    conversation  INTEGER NOT NULL REFERENCES conversations (number),
    principal_ref TEXT NOT NULL,
    key_hash      BLOB NOT NULL,
    branch_id     TEXT NOT NULL,
    operation_id  TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    UNIQUE (key_hash, conversation, operation_id)
) STRICT;
CREATE INDEX session_keys_by_conversation ON session_keys (conversation);
