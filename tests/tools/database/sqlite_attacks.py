"""Statements meant for SQLite, one a line, that are refused on both kinds of database."""

from __future__ import annotations

SQLITE = """
SELECT note MATCH 'x' FROM orders
SELECT * FROM orders INDEXED BY x
SELECT * FROM pragma_database_list
SELECT * FROM pragma_database_list()
SELECT * FROM pragma_function_list
SELECT * FROM pragma_journal_mode('wal')
SELECT * FROM pragma_query_only(0)
SELECT * FROM bytecode('SELECT 1')
SELECT * FROM sqlite_stmt
SELECT * FROM sqlite_sequence
SELECT * FROM sqlite_stat1
SELECT * FROM "sqlite_master"
SELECT * FROM 'sqlite_master'
SELECT * FROM fts5vocab
SELECT * FROM fsdir('.')
SELECT * FROM zipfile('x')
SELECT load_extension('x', 'y')
SELECT "load_extension"('x')
SELECT fts3_tokenizer('simple', 'x')
SELECT sqlite_offset(id) FROM orders
SELECT quote(card_number) FROM orders
SELECT symlink('a', 'b')
SELECT eval('DELETE FROM orders')
SELECT shell('id')
SELECT RAISE(ABORT, 'x')
SELECT json_group_array(card_number) FROM orders
SELECT 'account'.password FROM account
WITH x AS (INSERT OR REPLACE INTO log (text) VALUES ('x')) SELECT 1
CREATE VIRTUAL TABLE v USING fts5(a)
CREATE TEMP TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM orders; END
BEGIN EXCLUSIVE
END TRANSACTION
SAVEPOINT "a"
RELEASE SAVEPOINT a
PRAGMA foreign_keys = OFF
PRAGMA journal_mode = DELETE
PRAGMA trusted_schema = ON
PRAGMA load_extension('x')
PRAGMA temp_store_directory = '/tmp'
ATTACH 'other.db' AS other
ATTACH DATABASE ':memory:' AS other
DETACH other
.shell id
.import x y
INSERT INTO log (text) VALUES (load_extension('x'))
INSERT INTO sqlite_sequence (name, seq) VALUES ('x', 9)
INSERT INTO main.sqlite_schema (type, name) VALUES ('table', 'x')
INSERT INTO pragma_table_list (name) VALUES ('x')
INSERT OR ROLLBACK INTO log (text) VALUES ('x')
UPDATE log, line SET text = 'x'
UPDATE log INDEXED BY x SET text = 'y'
UPDATE "sqlite_master" SET sql = 'x'
UPDATE totals SET status = 'x'
UPDATE password account
DELETE log
DELETE FROM log, line
DELETE FROM other.log
""".strip("\n").split("\n")
