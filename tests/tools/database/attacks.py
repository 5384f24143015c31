"""Statements that neither query nor change may run, on either kind of database."""

from __future__ import annotations

BOTH = """
SELECT 1; SELECT 2
SELECT 1; DROP TABLE orders
UPDATE orders SET note = 'x'; DROP TABLE orders
DELETE FROM heap; COMMIT; DELETE FROM orders
DELETE FROM heap; SELECT note FROM orders
DELETE FROM heap; UPDATE orders SET note = card_number
SELECT 1;; DELETE FROM orders
SELECT 1 -- DELETE FROM orders
SELECT 1 /* x */
SELECT 1 /*!50000 + 1 */
SELECT /* /* */ 1 */ 1
DELETE FROM orders -- WHERE id = 1
SELECT 'a\\'; DELETE FROM orders; --'
SELECT E'\\'; DELETE FROM orders; --'
SELECT e'\\''; DELETE FROM orders; --'
SELECT U&'\\0027; DELETE FROM orders; --'
SELECT U&"d!0061t!+000061" UESCAPE '!' FROM orders
SELECT N'x'
SELECT X'41'
SELECT B'01'
SELECT x'41'
SELECT $$ x $$
SELECT $tag$ ; DELETE FROM orders; $tag$
SELECT $1
SELECT ?
SELECT :name
SELECT @name
SELECT `id` FROM orders
SELECT [id] FROM orders
SELECT 'open
SELECT "open
SELECT (1
SELECT 1)
SELECT 1e
SELECT 1_000
SELECT 0x10
SELECT 12abc
SELECT 1.
SELECT naïve FROM orders
SELECT\u00a01
SELECT\u20281
SELECT '\u202e1'
SELECT 'a\u200bb'
SELECT '\ufeff'
SELECT\x0c1
SELECT\x0b1
SELECT '\x001'
SELECT 1 FROM orders FOR UPDATE
SELECT 1 FROM orders FOR SHARE
SELECT 1 FROM orders FOR NO KEY UPDATE SKIP LOCKED
SELECT * INTO stolen FROM orders
SELECT 1 INTO OUTFILE 'x'
CREATE TABLE stolen (id INTEGER)
CREATE TABLE stolen AS SELECT * FROM orders
CREATE TEMP TABLE stolen AS SELECT 1
CREATE TEMPORARY VIEW orders AS SELECT 1
CREATE VIEW stolen AS SELECT card_number AS number FROM orders
CREATE TRIGGER t AFTER UPDATE ON orders BEGIN SELECT 1; END
CREATE INDEX i ON orders (id)
DROP TABLE orders
DROP VIEW cards
ALTER TABLE orders RENAME TO gone
ALTER TABLE orders DROP COLUMN note
TRUNCATE orders
TRUNCATE TABLE log
REPLACE INTO heap (word, number) VALUES ('a', 1)
INSERT OR REPLACE INTO customer (id, name) VALUES (1, 'x')
INSERT OR IGNORE INTO customer (id, name) VALUES (1, 'x')
UPDATE OR REPLACE customer SET id = 1
DELETE FROM orders RETURNING *
MERGE INTO orders USING customer ON orders.id = customer.id WHEN MATCHED THEN DELETE
BEGIN
BEGIN IMMEDIATE
START TRANSACTION
COMMIT
END
ROLLBACK
ABORT
SAVEPOINT a
RELEASE a
ROLLBACK TO a
PREPARE TRANSACTION 'x'
COMMIT PREPARED 'x'
SET search_path = public
SET ROLE owner
RESET ALL
EXPLAIN ANALYZE DELETE FROM orders
EXPLAIN QUERY PLAN DELETE FROM orders
ANALYZE
VACUUM
VACUUM INTO 'stolen.db'
REINDEX
ATTACH DATABASE 'other.db' AS other
DETACH DATABASE main
PRAGMA query_only = OFF
PRAGMA writable_schema = ON
PRAGMA user_version = 7
COPY orders TO '/tmp/stolen'
COPY orders FROM PROGRAM 'id'
COPY (SELECT 1) TO STDOUT
CALL something()
DO 'BEGIN DELETE FROM orders; END'
EXECUTE something
PREPARE p AS DELETE FROM orders
DEALLOCATE ALL
DECLARE c CURSOR FOR SELECT 1
FETCH ALL FROM c
LISTEN x
NOTIFY x
LOCK TABLE orders
GRANT ALL ON orders TO public
REVOKE ALL ON orders FROM public
ALTER ROLE agent SUPERUSER
CREATE ROLE thief
CREATE EXTENSION dblink
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'
SECURITY LABEL ON TABLE orders IS 'x'
COMMENT ON TABLE orders IS 'x'
REFRESH MATERIALIZED VIEW cards
CLUSTER orders
CHECKPOINT
DISCARD ALL
LOAD 'x'
IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z
SHOW ALL
USE other
HANDLER orders OPEN
TABLE orders
SELECT load_extension('x.so')
SELECT writefile('stolen', 'x')
SELECT readfile('/etc/passwd')
SELECT fts3_tokenizer('x')
SELECT edit('x')
SELECT pg_read_file('/etc/passwd')
SELECT pg_catalog.pg_read_file('/etc/passwd')
SELECT "pg_read_file"('/etc/passwd')
SELECT pg_ls_dir('/')
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/stolen')
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'x')
SELECT * FROM dblink('host=x', 'SELECT 1') AS t(a int)
SELECT pg_terminate_backend(1)
SELECT pg_cancel_backend(1)
SELECT pg_advisory_lock(1)
SELECT pg_notify('x', 'y')
SELECT pg_reload_conf()
SELECT pg_switch_wal()
SELECT pg_logical_emit_message(true, 'x', 'y')
SELECT nextval('counter')
SELECT setval('counter', 99)
SELECT currval('counter')
SELECT NEXT VALUE FOR counter
SELECT set_config('search_path', 'x', false)
SELECT current_setting('data_directory')
SELECT query_to_xml('SELECT 1', true, true, '')
SELECT table_to_xml('orders', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT cursor_to_xml('c', 1, true, true, '')
SELECT ts_stat('SELECT 1')
SELECT xpath_table('a', 'b', 'c', 'd', 'e')
SELECT row_to_json(orders) FROM orders
SELECT to_jsonb(orders) FROM orders
SELECT json_agg(orders) FROM orders
SELECT (orders).card_number FROM orders
SELECT (o).* FROM orders o
SELECT 'x' COLLATE "x"; SELECT 1
SELECT * FROM orders TABLESAMPLE SYSTEM (1)
SELECT * FROM ONLY orders
SELECT * FROM orders NATURAL JOIN account
SELECT * FROM orders, LATERAL (SELECT 1) AS x
SELECT * FROM pragma_table_info('orders')
SELECT * FROM pragma_user_version
SELECT * FROM sqlite_master
SELECT * FROM sqlite_schema
SELECT * FROM main.sqlite_schema
SELECT * FROM temp.orders
SELECT * FROM sqlite_temp_master
SELECT * FROM dbstat
SELECT * FROM pg_catalog.pg_authid
SELECT * FROM pg_shadow
SELECT * FROM pg_stat_activity
SELECT * FROM pg_class
SELECT * FROM other.orders
SELECT * FROM public.public.orders
SELECT * FROM nothing
SELECT nothing FROM orders
SELECT ctid, xmin FROM orders
SELECT tableoid FROM orders
SELECT o FROM orders AS o
SELECT o.name FROM orders AS o
SELECT orders.name FROM orders
SELECT count(o) FROM orders AS o
INSERT INTO sqlite_master (name) VALUES ('x')
UPDATE sqlite_schema SET sql = 'x'
DELETE FROM sqlite_sequence
INSERT INTO pg_class (relname) VALUES ('x')
UPDATE pg_catalog.pg_class SET relname = 'x'
DELETE FROM pg_authid
UPDATE information_schema.tables SET table_name = 'x'
UPDATE nothing SET a = 1
UPDATE orders SET nothing = 1
UPDATE orders SET orders.note = 'x'
UPDATE orders SET note = pg_read_file('/etc/passwd')
UPDATE orders SET note = nothing
UPDATE orders SET note = 'x' WHERE nothing = 1
UPDATE cards SET id = 1
DELETE FROM totals
INSERT INTO cards (id) VALUES (9)
INSERT INTO customer (id, nothing) VALUES (9, 'x')
DELETE FROM orders WHERE id IN (SELECT id FROM nothing)
DELETE FROM orders WHERE CURRENT OF c
DELETE
UPDATE
INSERT INTO
WITH
'SELECT 1'
1
""".strip("\n").split("\n")
