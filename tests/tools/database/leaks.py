"""Statements that would disclose something of a secret column, one a line."""

from __future__ import annotations

# Refused: each shows a secret value or something that depends on one.
LEAKS = """
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
SELECT count(card_number) FROM orders
SELECT count(*) FROM orders WHERE card_number IS NULL
SELECT id FROM orders WHERE EXISTS (SELECT card_number FROM orders)
SELECT status, total FROM totals
SELECT id FROM cards
SELECT c || '' FROM account AS u(a, b, c)
SELECT login, password FROM account ORDER BY (2)
SELECT count(*), password FROM account GROUP BY (2)
SELECT login, password FROM account ORDER BY 2 COLLATE NOCASE
SELECT max(id), password FROM account
SELECT u FROM account AS u
SELECT to_jsonb(u) FROM account AS u
SELECT name(orders) FROM orders
SELECT a.id FROM account AS a JOIN (SELECT 'hunter2' AS password) AS b USING (password)
SELECT a.id FROM account AS a JOIN (SELECT 'hunter2' AS password) AS b USING ("PASSWORD")
SELECT a.id FROM account AS a NATURAL JOIN (SELECT 'hunter2' AS password) AS b
SELECT password FROM account FULL JOIN (SELECT 'x' AS password) AS b USING (password)
SELECT 1 FROM account LEFT JOIN (SELECT 'x' AS password) AS b USING (password)
WITH cards AS (SELECT card_number AS c FROM orders) SELECT c FROM cards
WITH watch AS (SELECT password FROM account) SELECT count(*) FROM watch
VALUES ((SELECT max(password) FROM account))
EXPLAIN SELECT id FROM account WHERE password = 'hunter2'
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
WITH RECURSIVE x(c) AS (SELECT card_number FROM orders UNION ALL SELECT c FROM x WHERE 1 = 0) \
SELECT c FROM x
SELECT id FROM account WHERE password = 'hunter2'
SELECT id FROM orders WHERE card_number ILIKE '4%'
SELECT id FROM orders WHERE card_number BETWEEN '4' AND '5'
SELECT id FROM orders WHERE card_number IS DISTINCT FROM '4'
SELECT id FROM orders WHERE card_number IS NOT '4'
SELECT id FROM orders WHERE card_number IS TRUE
SELECT id FROM orders WHERE card_number IN (SELECT note FROM orders)
SELECT id FROM orders WHERE (id, card_number) IN ((1, '4'))
SELECT id FROM orders WHERE coalesce(card_number, 'x') = 'x'
SELECT id FROM orders WHERE length(card_number) > 3
SELECT id FROM orders ORDER BY card_number IS NULL, card_number
SELECT id FROM orders ORDER BY (card_number)
SELECT first_value(id) OVER (ORDER BY card_number) FROM orders
SELECT ntile(2) OVER (PARTITION BY card_number ORDER BY id) FROM orders
SELECT sum(id) OVER (PARTITION BY card_number) FROM orders
SELECT row_number() OVER w FROM orders WINDOW w AS (ORDER BY card_number)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY card_number) FROM orders
SELECT count(*) FROM orders HAVING max(card_number) = '4'
SELECT id FROM orders GROUP BY GROUPING SETS ((card_number))
SELECT id FROM orders GROUP BY ROLLUP (card_number)
SELECT id FROM orders OFFSET (SELECT length(max(card_number)) FROM orders)
SELECT id, (SELECT count(*) FROM orders AS b WHERE b.card_number <= a.card_number) FROM orders AS a
SELECT id FROM orders AS a WHERE EXISTS (SELECT 1 FROM orders AS b \
WHERE b.card_number = a.card_number AND b.id <> a.id)
SELECT a FROM (SELECT (SELECT max(password) FROM account) AS a) AS t WHERE a = 'hunter2'
SELECT card_number ->> 'a' FROM orders
SELECT json_extract(card_number, 'x') FROM orders
SELECT json_extract('{}', card_number) FROM orders
SELECT to_char(1, card_number) FROM orders
SELECT split_part('a', card_number, 1) FROM orders
SELECT extract(year FROM card_number) FROM orders
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
UPDATE account SET login = password
UPDATE account SET password = password || 'x'
INSERT INTO account (id, login, password) SELECT id + 10, password, login FROM account
INSERT INTO account SELECT id + 10, login, password FROM account
UPDATE log SET text = (SELECT c FROM account AS u(a, b, c))
UPDATE orders SET note = 'x' RETURNING *
DELETE FROM account RETURNING password
UPDATE log SET text = password FROM account
INSERT INTO account (id, login) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET login = \
account.password
""".strip().split("\n")
