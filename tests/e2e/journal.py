"""The data directory as an outsider sees it: throughline.db opened read-only."""

import contextlib
import json
import sqlite3


class Journal:
    """Questions to the database of one data directory."""

    def __init__(self, data_dir):
        self.path = data_dir / "throughline.db"

    def rows(self, query, *values):
        with contextlib.closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            return connection.execute(query, values).fetchall()

    def count(self, table):
        return self.rows(f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 (a fixed name)

    def conversations(self):
        return [row[0] for row in self.rows("SELECT conversation_id FROM conversations WHERE deleted = 0 ORDER BY number")]

    def branches(self, conversation_id):
        query = "SELECT b.branch_id FROM branches b JOIN conversations c ON c.number = b.conversation WHERE c.conversation_id = ? ORDER BY b.number"
        return [row[0] for row in self.rows(query, conversation_id)]

    def items(self, conversation_id):
        """Item records of a conversation, in order of writing."""
        query = "SELECT i.body FROM journal_items i JOIN conversations c ON c.number = i.conversation WHERE c.conversation_id = ? ORDER BY i.number"
        return [json.loads(row[0]) for row in self.rows(query, conversation_id)]

    def operation_states(self):
        return [row[0] for row in self.rows("SELECT state FROM operations ORDER BY number")]

    def operation(self, operation_id):
        found = self.rows("SELECT state, body FROM operations WHERE operation_id = ?", operation_id)
        return {"state": found[0][0], **json.loads(found[0][1])} if found else None

    def check(self):
        return self.rows("PRAGMA quick_check")[0][0]


def kinds(items):
    """How many items of each kind there are; messages by role: `message/user`."""
    counts = {}
    for item in items:
        name = f"message/{item.get('role')}" if item["kind"] == "message" else item["kind"]
        counts[name] = counts.get(name, 0) + 1
    return counts
