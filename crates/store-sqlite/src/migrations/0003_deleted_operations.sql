-- 1 = hidden, its events are still to be removed; 2 = they are gone.
ALTER TABLE operations ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1, 2));
CREATE INDEX operations_to_sweep ON operations (number) WHERE deleted = 1;
