"""Statements that neither query nor change may run, on either kind of database unless said otherwise."""

from __future__ import annotations

BOTH = """
SELECT 1; SELECT 2
SELECT 1; DROP TABLE orders
UPDATE orders SET note = 'x'; DELETE FROM orders
SELECT 1;; DELETE FROM orders
SELECT 1 -- DELETE FROM orders
SELECT 1 /* x */
SELECT 1 /*!50000 + 1 */
SELECT /* /* */ 1 */ 1
DELETE FROM orders -- WHERE id = 1
SELECT 'a\\'; DELETE FROM orders; --'
SELECT "a""; DELETE FROM orders --"
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
WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone
WITH more AS (INSERT INTO log (text) VALUES ('x') RETURNING text) SELECT * FROM more
WITH more AS (UPDATE orders SET note = 'x' RETURNING id) SELECT count(*) FROM more
WITH gone AS (DELETE FROM line) UPDATE orders SET note = 'x'
WITH gone AS (DELETE FROM line) DELETE FROM log
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
INSERT INTO customer (id, name) VALUES (1, 'x') ON CONFLICT DO NOTHING
INSERT INTO customer (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = 'x'
INSERT INTO log DEFAULT VALUES
INSERT INTO log VALUES ('x')
INSERT INTO log (text) VALUES ('x') RETURNING text
UPDATE orders SET note = 'x' RETURNING id
DELETE FROM orders RETURNING *
UPDATE orders SET note = 'x' FROM customer WHERE customer.id = orders.customer_id
DELETE FROM line USING orders WHERE orders.id = line.order_id
UPDATE orders SET (note, status) = ('x', 'y')
UPDATE ONLY orders SET note = 'x'
UPDATE orders SET note = 'x' ORDER BY id LIMIT 1
DELETE FROM orders ORDER BY id LIMIT 1
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
EXPLAIN SELECT 1
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
VALUES (1)
SELECT load_extension('x.so')
SELECT writefile('stolen', 'x')
SELECT readfile('/etc/passwd')
SELECT fts3_tokenizer('x')
SELECT edit('x')
SELECT sqlite_version()
SELECT randomblob(1000000000)
SELECT zeroblob(1000000000)
SELECT printf('%1000000000d', 1)
SELECT pg_read_file('/etc/passwd')
SELECT pg_catalog.pg_read_file('/etc/passwd')
SELECT "pg_read_file"('/etc/passwd')
SELECT "lower"('X')
SELECT pg_catalog.lower('X')
SELECT pg_ls_dir('/')
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/stolen')
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'x')
SELECT * FROM dblink('host=x', 'SELECT 1') AS t(a int)
SELECT pg_terminate_backend(1)
SELECT pg_cancel_backend(1)
SELECT pg_sleep(10)
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
SELECT txid_current()
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
SELECT repeat('x', 1000000000)
SELECT generate_series(1, 1000000000)
SELECT * FROM generate_series(1, 10)
SELECT * FROM unnest(ARRAY[1])
SELECT ARRAY(SELECT 1)
SELECT 'orders'::regclass
SELECT CAST('orders' AS regclass)
SELECT 'x'::bytea
SELECT 'x' COLLATE "x"; SELECT 1
SELECT current_user
SELECT session_user
SELECT * FROM ROWS FROM (now())
SELECT * FROM now()
SELECT * FROM orders TABLESAMPLE SYSTEM (1)
SELECT * FROM ONLY orders
SELECT * FROM orders NATURAL JOIN account
SELECT * FROM orders, LATERAL (SELECT 1) AS x
SELECT * FROM pragma_table_info('orders')
SELECT * FROM pragma_user_version
SELECT * FROM json_each('[1]')
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
SELECT * FROM information_schema.tables
SELECT * FROM other.orders
SELECT * FROM public.public.orders
SELECT * FROM nothing
SELECT nothing FROM orders
SELECT rowid FROM orders
SELECT oid FROM orders
SELECT _rowid_ FROM orders
SELECT ctid, xmin FROM orders
SELECT tableoid FROM orders
SELECT o FROM orders AS o
SELECT o.name FROM orders AS o
SELECT orders.name FROM orders
SELECT count(o) FROM orders AS o
SELECT "not a column" FROM orders
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
WITH orders AS (SELECT 1 AS id) DELETE FROM orders
WITH orders AS (SELECT 1 AS id) SELECT id FROM orders
SELECT
DELETE
UPDATE
INSERT INTO
WITH
'SELECT 1'
(SELECT 1)
1
""".strip("\n").split("\n")

# Whoever may see neither a value nor anything that depends on it. The first list runs and masks; the second is refused.
MASKED = """
SELECT card_number FROM orders
SELECT * FROM orders
SELECT o.* FROM orders AS o
SELECT card_number AS harmless FROM orders
SELECT id, upper(card_number) AS c FROM orders
SELECT card_number || '' AS c FROM orders
SELECT coalesce(card_number, '?') AS c FROM orders
SELECT max(card_number) AS c FROM orders
SELECT min(card_number) AS c FROM orders GROUP BY status
SELECT length(card_number) AS c FROM orders
SELECT (SELECT max(card_number) FROM orders) AS c
SELECT x.c FROM (SELECT card_number AS c FROM orders) AS x
SELECT x.c FROM (SELECT card_number FROM orders) AS x(c)
WITH x AS (SELECT card_number AS c FROM orders) SELECT c FROM x
WITH x(c) AS (SELECT card_number FROM orders), y AS (SELECT c AS d FROM x) SELECT d FROM y
SELECT note FROM orders UNION ALL SELECT card_number FROM orders
SELECT card_number FROM orders UNION ALL SELECT password FROM account
SELECT * FROM orders CROSS JOIN account
SELECT customer.name, orders.* FROM orders JOIN customer ON customer.id = orders.customer_id
SELECT * FROM orders JOIN line ON line.order_id = orders.id
SELECT shouted FROM cards
SELECT * FROM cards
SELECT max(card_number) OVER (PARTITION BY status) AS c FROM orders
SELECT login, password FROM account WHERE password IS NOT NULL
SELECT "card_number" FROM "orders"
SELECT CARD_NUMBER FROM ORDERS
SELECT orders.card_number AS id FROM orders
""".strip().split("\n")
TOLD_NOTHING = """
SELECT count(card_number) FROM orders
SELECT count(*) FROM orders WHERE card_number IS NULL
SELECT id FROM orders WHERE EXISTS (SELECT card_number FROM orders)
SELECT status, total FROM totals
SELECT id FROM cards
""".strip().split("\n")
LEAKS = """
SELECT id FROM orders WHERE card_number = '4111-0001'
SELECT id FROM orders WHERE card_number LIKE '4%'
SELECT id FROM orders WHERE card_number IN ('4111-0001')
SELECT id FROM orders WHERE length(card_number) > 3
SELECT id FROM orders WHERE card_number BETWEEN '4' AND '5'
SELECT id FROM orders WHERE NOT card_number = 'x'
SELECT id FROM orders WHERE (card_number = 'x') IS NULL
SELECT id FROM orders WHERE nullif(card_number, '4111-0001') IS NULL
SELECT id FROM orders ORDER BY card_number
SELECT id FROM orders ORDER BY upper(card_number)
SELECT id, card_number FROM orders ORDER BY 2
SELECT id, card_number AS c FROM orders ORDER BY c
SELECT id AS card_number FROM orders ORDER BY card_number || ''
SELECT id AS card_number FROM orders GROUP BY card_number
SELECT 1 AS card_number, count(*) FROM orders GROUP BY card_number
SELECT id FROM orders GROUP BY id, card_number
SELECT count(*) FROM orders GROUP BY card_number
SELECT card_number, count(*) FROM orders GROUP BY 1
SELECT status FROM orders GROUP BY status HAVING max(card_number) > '4'
SELECT DISTINCT card_number FROM orders
SELECT count(DISTINCT card_number) FROM orders
SELECT count(*) FROM (SELECT DISTINCT card_number FROM orders) AS x
SELECT card_number FROM orders UNION SELECT '4111-0001'
SELECT card_number FROM orders INTERSECT SELECT '4111-0001'
SELECT '4111-0001' EXCEPT SELECT card_number FROM orders
SELECT card_number FROM orders UNION ALL SELECT 'x' ORDER BY 1
SELECT orders.id FROM orders JOIN account ON orders.card_number = account.password
SELECT a.id FROM orders AS a JOIN orders AS b USING (card_number)
SELECT a.id FROM orders AS a, orders AS b WHERE a.card_number < b.card_number
SELECT id FROM orders WHERE id = (SELECT count(*) FROM orders WHERE card_number = 'x')
SELECT id FROM orders WHERE '4111-0001' IN (SELECT card_number FROM orders)
SELECT id FROM orders WHERE note = ANY (SELECT card_number FROM orders)
SELECT id FROM orders AS o WHERE EXISTS (SELECT 1 FROM account WHERE account.password = o.note)
SELECT CASE WHEN card_number = '4111-0001' THEN 1 ELSE 0 END FROM orders
SELECT CASE card_number WHEN '4111-0001' THEN 1 ELSE 0 END FROM orders
SELECT card_number = '4111-0001' FROM orders
SELECT 1 / (CASE WHEN card_number = '4111-0001' THEN 0 ELSE 1 END) FROM orders
SELECT CAST(card_number AS INTEGER) FROM orders
SELECT card_number::integer FROM orders
SELECT card_number + 1 FROM orders
SELECT replace(card_number, '4', 'x') FROM orders
SELECT nullif(card_number, '4111-0001') FROM orders
SELECT substr(card_number, 1, 4) FROM orders
SELECT instr(card_number, '4') FROM orders
SELECT strpos(card_number, '4') FROM orders
SELECT ascii(card_number) FROM orders
SELECT unicode(card_number) FROM orders
SELECT md5(card_number) FROM orders
SELECT hex(card_number) FROM orders
SELECT sum(length(card_number)) FROM orders
SELECT row_number() OVER (ORDER BY card_number) FROM orders
SELECT count(*) FILTER (WHERE card_number = 'x') FROM orders
SELECT max(total) FILTER (WHERE card_number > '4') FROM orders
SELECT string_agg(card_number, ',') FROM orders
SELECT group_concat(card_number) FROM orders
SELECT max(card_number) > '4' FROM orders
SELECT (SELECT max(card_number) FROM orders) = 'x'
SELECT id FROM orders LIMIT (SELECT length(max(card_number)) FROM orders)
SELECT id FROM orders ORDER BY (SELECT max(password) FROM account)
SELECT id FROM cards WHERE shouted = '4111-0001'
SELECT shouted FROM cards ORDER BY shouted
SELECT x.id FROM (SELECT id, card_number AS c FROM orders) AS x WHERE x.c = 'y'
WITH x AS (SELECT card_number AS c FROM orders) SELECT 1 FROM x WHERE c = 'y'
WITH RECURSIVE x(c) AS (SELECT card_number FROM orders UNION ALL SELECT c FROM x WHERE 1 = 0) SELECT c FROM x
SELECT id FROM account WHERE password = 'hunter2'
""".strip().split("\n")
LEAKING_CHANGES = """
UPDATE orders SET note = card_number
UPDATE orders SET note = (SELECT max(password) FROM account)
UPDATE orders SET note = 'x' WHERE card_number = '4111-0001'
UPDATE orders SET note = CASE WHEN card_number = '4' THEN 'a' ELSE 'b' END
UPDATE orders SET note = upper(card_number) WHERE id = 1
UPDATE orders SET total = length(card_number)
INSERT INTO log (text) SELECT card_number FROM orders
INSERT INTO log (text) SELECT shouted FROM cards
INSERT INTO log (text) VALUES ((SELECT max(card_number) FROM orders))
INSERT INTO log (text) SELECT 'x' FROM orders WHERE card_number = '4'
WITH x AS (SELECT password AS p FROM account) INSERT INTO log (text) SELECT p FROM x
WITH x AS (SELECT password AS p FROM account) UPDATE orders SET note = (SELECT max(p) FROM x)
DELETE FROM orders WHERE card_number LIKE '4%'
DELETE FROM log WHERE text IN (SELECT password FROM account)
""".strip().split("\n")
# What the database itself must refuse should a parser ever let it through: text, and what it was taken for.
DISGUISED = {
    "sqlite": (
        "ATTACH DATABASE 'other.db' AS other", "DETACH DATABASE main", "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON", "PRAGMA user_version = 7", "SAVEPOINT a", "COMMIT", "ROLLBACK", "VACUUM",
        "VACUUM INTO 'stolen.db'", "DROP TABLE line", "CREATE TABLE stolen (id INTEGER)", "CREATE TEMP TABLE t (id)",
        "ALTER TABLE orders RENAME TO gone", "REINDEX", "ANALYZE", "SELECT load_extension('x.so')",
        "SELECT card_number FROM orders", "SELECT id FROM orders WHERE card_number = '4111-0001'",
        "SELECT * FROM sqlite_schema", "SELECT * FROM pragma_user_version", "SELECT sqlite_version()",
        "SELECT 1; SELECT 2",
        "DELETE FROM line", "INSERT INTO log VALUES ('x')", "UPDATE orders SET card_number = 'x'",
        "CREATE TRIGGER t AFTER UPDATE ON orders BEGIN SELECT 1; END", "UPDATE sqlite_schema SET sql = ''",
    ),
    "postgres": (
        "DELETE FROM line", "UPDATE orders SET note = 'x'", "INSERT INTO log VALUES ('x')", "DROP TABLE line",
        "CREATE TABLE stolen (id INTEGER)", "SELECT 1; DELETE FROM line", "SELECT 1; SELECT 2",
        "WITH gone AS (DELETE FROM line RETURNING sku) SELECT * FROM gone", "SELECT nextval('counter')",
        "SELECT pg_read_file('/etc/passwd')", "SELECT 1 FROM orders FOR UPDATE", "COPY orders TO '/tmp/cs-stolen'",
        "COPY orders TO PROGRAM 'cat'", "TRUNCATE log", "SELECT setval('counter', 99)",
        "ALTER ROLE agent SUPERUSER", "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE", "SELECT * INTO stolen FROM orders",
    ),
}  # fmt: skip
