-- Artifacts that nothing refers to are looked for by every collection; without this each would read the whole table.
CREATE INDEX artifacts_unreferenced ON artifacts (number) WHERE ref_count = 0;
CREATE INDEX pending_artifact_gc_by_time ON pending_artifact_gc (marked_at);
-- Running operations are looked for at each start, and a list by state reads only them.
DROP INDEX operations_by_state;
CREATE INDEX operations_by_state ON operations (state, number);
