"""Statements meant for PostgreSQL, one a line, that are refused on both kinds of database."""

from __future__ import annotations

POSTGRES = r"""
SELECT 1 \; SELECT 2
SELECT 1 \gexec
\copy orders TO '/tmp/x'
\! id
SELECT \u0070g_sleep(1)
SELECT "pg\005fsleep"(1)
SELECT ＠1
SELECT ｐg_sleep(1)
SELECT 1；DELETE FROM orders
SELECT '' || U&'\0027'
SELECT pg_backend_pid()
SELECT pg_stat_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_ls_logdir()
SELECT pg_rotate_logfile()
SELECT pg_create_restore_point('x')
SELECT pg_export_snapshot()
SELECT pg_try_advisory_lock(1)
SELECT pg_advisory_xact_lock(1)
SELECT pg_advisory_unlock_all()
SELECT pg_sleep_for('1 minute')
SELECT pg_sleep_until('tomorrow')
SELECT pg_stat_reset()
SELECT pg_create_logical_replication_slot('x', 'test_decoding')
SELECT pg_drop_replication_slot('x')
SELECT pg_catalog.set_config('a.b', 'c', false)
SELECT set_config('statement_timeout', '0', true)
SELECT dblink_connect('host=x')
SELECT dblink_exec('DELETE FROM orders')
SELECT * FROM dblink('SELECT 1')
SELECT lastval()
SELECT pg_get_viewdef('cards')
SELECT pg_get_functiondef(1)
SELECT 'x'::orders
SELECT orders FROM orders
SELECT orders::text FROM orders
SELECT CAST(orders AS text) FROM orders
SELECT concat(orders) FROM orders
SELECT coalesce(orders) FROM orders
SELECT max(orders) FROM orders
SELECT count(orders.*) FROM orders
SELECT (SELECT orders) FROM orders
SELECT o IS NULL FROM orders AS o
SELECT o = o FROM orders AS o
SELECT ROW(orders.*) FROM orders
SELECT ARRAY[card_number] FROM orders
SELECT array_agg(card_number) FROM orders
SELECT note[1] FROM orders
SELECT 1 ~ '(a+)+$'
SELECT note @> 'x' FROM orders
SELECT note #> 'x' FROM orders
SELECT * FROM orders FOR UPDATE NOWAIT
SELECT * FROM orders FOR KEY SHARE
SELECT * FROM (SELECT 1) TABLESAMPLE SYSTEM (1)
SELECT * FROM XMLTABLE('/a' PASSING 'x' COLUMNS a int)
SELECT * FROM json_populate_record(NULL, '{}')
SELECT * FROM pg_tables
SELECT * FROM pg_catalog.pg_proc
SELECT * FROM pg_settings
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_user_mapping
SELECT * FROM pg_largeobject
SELECT * FROM pg_stats
SELECT * FROM pg_temp.orders
SELECT * FROM pg_toast.pg_toast_1
SELECT * FROM shop.public.orders
SELECT DISTINCT ON (card_number) id FROM orders
SELECT * FROM (TABLE account) AS x
WITH x AS (TABLE account) SELECT * FROM x
WITH gone AS (TRUNCATE log) SELECT 1
WITH x AS (MERGE INTO orders USING customer ON 1 = 1 WHEN MATCHED THEN DELETE) SELECT 1
SELECT (DELETE FROM log)
SELECT * FROM (DELETE FROM log RETURNING *) AS x
SELECT * FROM (UPDATE log SET text = 'x' RETURNING *) AS x
EXPLAIN (ANALYZE) DELETE FROM line
EXPLAIN (ANALYZE, FORMAT JSON) SELECT nextval('counter')
COPY (DELETE FROM line RETURNING *) TO STDOUT
COPY orders TO PROGRAM 'cat > /tmp/cs-stolen'
COPY log FROM STDIN
DO $$ BEGIN DELETE FROM orders; END $$
DO LANGUAGE plpgsql 'BEGIN DELETE FROM orders; END'
CREATE OR REPLACE FUNCTION lower(text) RETURNS text LANGUAGE sql AS 'SELECT 1'
CREATE TEMP VIEW orders AS SELECT 1
CREATE SCHEMA stolen
CREATE DOMAIN d AS int
CREATE OPERATOR === (leftarg = int)
CREATE CAST (int AS text) WITHOUT FUNCTION
CREATE RULE r AS ON SELECT TO orders DO INSTEAD SELECT 1
CREATE POLICY p ON orders
CREATE PUBLICATION p FOR ALL TABLES
CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p
CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw
CREATE FOREIGN TABLE f (a int) SERVER s
CREATE DATABASE d
CREATE LANGUAGE plpython3u
ALTER SYSTEM SET fsync = off
ALTER ROLE agent SET statement_timeout = 0
ALTER TABLE orders DISABLE TRIGGER ALL
ALTER SEQUENCE counter RESTART
REASSIGN OWNED BY agent TO owner
DROP OWNED BY agent
SET LOCAL statement_timeout = 0
SET SESSION AUTHORIZATION owner
SET TRANSACTION READ WRITE
SET CONSTRAINTS ALL DEFERRED
BEGIN; DELETE FROM orders; COMMIT
COMMIT AND CHAIN
UNLISTEN *
INSERT INTO log (text) SELECT pg_read_file('/etc/passwd')
INSERT INTO log (text) OVERRIDING SYSTEM VALUE VALUES ('x')
INSERT INTO log (text) VALUES ('x') RETURNING (SELECT max(card_number) FROM orders)
INSERT INTO pg_largeobject (loid) VALUES (1)
UPDATE log SET text = 'x' WHERE EXISTS (TABLE account)
UPDATE log SET text = (DELETE FROM line RETURNING sku)
UPDATE log AS l SET l.text = 'x'
UPDATE log SET text = 'x' WHERE CURRENT OF c
UPDATE log SET text[1] = 'x'
UPDATE log SET text = set_config('a.b', 'x', false)
UPDATE pg_settings SET setting = 'x'
DELETE FROM log WHERE EXISTS (SELECT pg_terminate_backend(1))
DELETE FROM "pg_catalog"."pg_class"
""".strip("\n").split("\n")
POSTGRES.append(
    "WITH x AS MATERIALIZED (SELECT card_number AS c FROM orders) "
    "SELECT id FROM orders WHERE note IN (SELECT c FROM x)"
)
