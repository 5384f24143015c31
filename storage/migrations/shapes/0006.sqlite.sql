CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
;
CREATE TABLE answer (
	seq INTEGER NOT NULL,
	call_id VARCHAR NOT NULL,
	revision INTEGER NOT NULL,
	person VARCHAR NOT NULL,
	given TEXT NOT NULL,
	declined BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (seq),
	FOREIGN KEY(call_id) REFERENCES call (id),
	UNIQUE (call_id)
)
;
CREATE TABLE attached (
	id VARCHAR NOT NULL,
	run_id VARCHAR NOT NULL,
	message VARCHAR NOT NULL,
	slack_id VARCHAR NOT NULL,
	person VARCHAR NOT NULL,
	media VARCHAR NOT NULL,
	size INTEGER NOT NULL,
	sha256 VARCHAR NOT NULL,
	data TEXT NOT NULL,
	withheld VARCHAR(16) NOT NULL,
	read_at BIGINT,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(run_id) REFERENCES run (id)
)
;
CREATE TABLE attempt (
	seq INTEGER NOT NULL,
	call_id VARCHAR NOT NULL,
	revision INTEGER NOT NULL,
	at BIGINT NOT NULL,
	PRIMARY KEY (seq),
	FOREIGN KEY(call_id) REFERENCES call (id)
)
;
CREATE TABLE "audit" (
	seq INTEGER NOT NULL,
	at BIGINT NOT NULL,
	run_id VARCHAR NOT NULL,
	call_id VARCHAR NOT NULL,
	actor VARCHAR NOT NULL,
	event VARCHAR NOT NULL,
	data TEXT NOT NULL,
	payload TEXT NOT NULL,
	key_id VARCHAR NOT NULL,
	previous VARCHAR NOT NULL,
	hash VARCHAR NOT NULL,
	PRIMARY KEY (seq)
)
;
CREATE TABLE call (
	id VARCHAR NOT NULL,
	run_id VARCHAR NOT NULL,
	plan_id VARCHAR NOT NULL,
	position INTEGER NOT NULL,
	provider_id VARCHAR NOT NULL,
	tool VARCHAR NOT NULL,
	does VARCHAR NOT NULL,
	schema_digest VARCHAR NOT NULL,
	status VARCHAR(16) NOT NULL,
	revision INTEGER NOT NULL,
	digest VARCHAR NOT NULL,
	key_id VARCHAR NOT NULL,
	gate TEXT NOT NULL,
	deadline BIGINT,
	asked_at BIGINT,
	next_at BIGINT,
	told_moments INTEGER NOT NULL,
	told_stage INTEGER NOT NULL,
	grant_id VARCHAR NOT NULL,
	reason TEXT NOT NULL,
	preview TEXT NOT NULL,
	names TEXT NOT NULL,
	action TEXT NOT NULL,
	claimant VARCHAR NOT NULL,
	held_until BIGINT,
	preview_in_thread TEXT,
	preview_rows TEXT NOT NULL,
	expects TEXT NOT NULL,
	output TEXT NOT NULL,
	note TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	decided_at BIGINT,
	finished_at BIGINT, assignee VARCHAR DEFAULT '' NOT NULL, assigned_by VARCHAR DEFAULT '' NOT NULL, look_due_at BIGINT, starts_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(plan_id) REFERENCES "plan" (id),
	FOREIGN KEY(run_id) REFERENCES run (id)
)
;
CREATE TABLE client_key (
	id VARCHAR NOT NULL,
	team VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	person VARCHAR NOT NULL,
	is_service BOOLEAN NOT NULL,
	tools TEXT NOT NULL,
	per_hour INTEGER NOT NULL,
	hash VARCHAR NOT NULL,
	webhook TEXT NOT NULL,
	made_at BIGINT NOT NULL,
	revoked_at BIGINT,
	PRIMARY KEY (id)
)
;
CREATE TABLE contact (
	team VARCHAR NOT NULL,
	person VARCHAR NOT NULL,
	greeted_at BIGINT NOT NULL,
	PRIMARY KEY (team, person)
)
;
CREATE TABLE copied (
	seq INTEGER NOT NULL,
	at BIGINT NOT NULL,
	why VARCHAR NOT NULL,
	version VARCHAR NOT NULL,
	key_id VARCHAR NOT NULL,
	head_seq INTEGER NOT NULL,
	head_hash VARCHAR NOT NULL,
	counts TEXT NOT NULL,
	problems TEXT NOT NULL,
	seal VARCHAR NOT NULL,
	signing_key TEXT NOT NULL,
	PRIMARY KEY (seq)
)
;
CREATE TABLE delegation (
	id VARCHAR NOT NULL,
	team VARCHAR NOT NULL,
	giver VARCHAR NOT NULL,
	delegate VARCHAR NOT NULL,
	words TEXT NOT NULL,
	given_at BIGINT NOT NULL,
	until BIGINT NOT NULL,
	revoked_at BIGINT,
	revoked_by VARCHAR NOT NULL,
	shown_at BIGINT,
	PRIMARY KEY (id)
)
;
CREATE TABLE delivery (
	seq INTEGER NOT NULL,
	"key" VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	team VARCHAR NOT NULL,
	user VARCHAR NOT NULL,
	channel VARCHAR NOT NULL,
	thread_ts VARCHAR NOT NULL,
	body TEXT NOT NULL,
	received_at BIGINT NOT NULL,
	status VARCHAR NOT NULL,
	run_id VARCHAR,
	note VARCHAR NOT NULL,
	attempts INTEGER NOT NULL,
	surface VARCHAR(16) NOT NULL,
	answer TEXT NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE ("key")
)
;
CREATE TABLE item (
	seq INTEGER NOT NULL,
	run_id VARCHAR NOT NULL,
	turn INTEGER NOT NULL,
	body TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (seq),
	FOREIGN KEY(run_id) REFERENCES run (id)
)
;
CREATE TABLE lane (
	channel VARCHAR NOT NULL,
	replica VARCHAR NOT NULL,
	PRIMARY KEY (channel)
)
;
CREATE TABLE message (
	seq INTEGER NOT NULL,
	"key" VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	run_id VARCHAR NOT NULL,
	plan_id VARCHAR NOT NULL,
	channel VARCHAR NOT NULL,
	thread_ts VARCHAR NOT NULL,
	recipient VARCHAR NOT NULL,
	body TEXT NOT NULL,
	status VARCHAR NOT NULL,
	wanted INTEGER NOT NULL,
	shown INTEGER NOT NULL,
	showing TEXT NOT NULL,
	ts VARCHAR NOT NULL,
	attempts INTEGER NOT NULL,
	due_at BIGINT,
	error VARCHAR NOT NULL,
	PRIMARY KEY (seq),
	UNIQUE ("key")
)
;
CREATE TABLE mode (
	seq INTEGER NOT NULL,
	team VARCHAR NOT NULL,
	channel VARCHAR NOT NULL,
	mode VARCHAR NOT NULL,
	person VARCHAR NOT NULL,
	at BIGINT NOT NULL,
	PRIMARY KEY (seq)
)
;
CREATE TABLE passkey (
	id VARCHAR NOT NULL,
	team VARCHAR NOT NULL,
	person VARCHAR NOT NULL,
	credential_id VARCHAR NOT NULL,
	public_key TEXT NOT NULL,
	sign_count BIGINT NOT NULL,
	aaguid VARCHAR NOT NULL,
	attested BOOLEAN NOT NULL,
	rp_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	transports VARCHAR NOT NULL,
	backed_up BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	counts_from BIGINT,
	call_id VARCHAR NOT NULL,
	last_used_at BIGINT,
	revoked_at BIGINT,
	revoked_by VARCHAR NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (credential_id)
)
;
CREATE TABLE pause (
	method VARCHAR NOT NULL,
	channel VARCHAR NOT NULL,
	until BIGINT NOT NULL,
	PRIMARY KEY (method, channel)
)
;
CREATE TABLE "plan" (
	id VARCHAR NOT NULL,
	run_id VARCHAR NOT NULL,
	turn INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	answered BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(run_id) REFERENCES run (id)
)
;
CREATE TABLE remembered (
	id VARCHAR NOT NULL,
	team VARCHAR NOT NULL,
	requester VARCHAR NOT NULL,
	tool VARCHAR NOT NULL,
	schema_digest VARCHAR NOT NULL,
	pinned TEXT NOT NULL,
	rule VARCHAR NOT NULL,
	channel VARCHAR NOT NULL,
	thread_ts VARCHAR NOT NULL,
	until BIGINT NOT NULL,
	uses INTEGER NOT NULL,
	call_id VARCHAR NOT NULL,
	given_by VARCHAR NOT NULL,
	given_at BIGINT NOT NULL,
	revoked_at BIGINT,
	revoked_by VARCHAR NOT NULL,
	PRIMARY KEY (id)
)
;
CREATE TABLE replica (
	id VARCHAR NOT NULL,
	until BIGINT NOT NULL,
	PRIMARY KEY (id)
)
;
CREATE TABLE revision (
	seq INTEGER NOT NULL,
	call_id VARCHAR NOT NULL,
	number INTEGER NOT NULL,
	arguments TEXT NOT NULL,
	digest VARCHAR NOT NULL,
	author VARCHAR NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (seq),
	FOREIGN KEY(call_id) REFERENCES call (id),
	UNIQUE (call_id, number)
)
;
CREATE TABLE run (
	id VARCHAR NOT NULL,
	team VARCHAR NOT NULL,
	channel VARCHAR NOT NULL,
	thread_ts VARCHAR NOT NULL,
	requester VARCHAR NOT NULL,
	source VARCHAR(16) NOT NULL,
	client VARCHAR NOT NULL,
	root_id VARCHAR NOT NULL,
	parent_call VARCHAR NOT NULL,
	status VARCHAR(16) NOT NULL,
	fence INTEGER NOT NULL,
	lease_until BIGINT,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	turns INTEGER NOT NULL,
	calls INTEGER NOT NULL,
	cards INTEGER NOT NULL,
	tokens INTEGER NOT NULL,
	rounds INTEGER NOT NULL,
	error VARCHAR NOT NULL,
	reworded TEXT NOT NULL,
	purged_at BIGINT, asked_in VARCHAR DEFAULT '' NOT NULL,
	PRIMARY KEY (id)
)
;
CREATE TABLE signature (
	seq INTEGER NOT NULL,
	call_id VARCHAR NOT NULL,
	revision INTEGER NOT NULL,
	person VARCHAR NOT NULL,
	verb VARCHAR(16) NOT NULL,
	passkey_id VARCHAR NOT NULL,
	statement TEXT NOT NULL,
	authenticator_data TEXT NOT NULL,
	client_data TEXT NOT NULL,
	signature TEXT NOT NULL,
	public_key TEXT NOT NULL,
	aaguid VARCHAR NOT NULL,
	rp_id VARCHAR NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (seq),
	FOREIGN KEY(call_id) REFERENCES call (id),
	FOREIGN KEY(passkey_id) REFERENCES passkey (id),
	UNIQUE (call_id, revision, person, verb)
)
;
CREATE TABLE signing_link (
	hash VARCHAR NOT NULL,
	kind VARCHAR(16) NOT NULL,
	team VARCHAR NOT NULL,
	person VARCHAR NOT NULL,
	call_id VARCHAR NOT NULL,
	revision INTEGER NOT NULL,
	verb VARCHAR NOT NULL,
	reason TEXT NOT NULL,
	statement TEXT NOT NULL,
	issued_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	used_at BIGINT,
	PRIMARY KEY (hash)
)
;
CREATE TABLE vote (
	seq INTEGER NOT NULL,
	call_id VARCHAR NOT NULL,
	revision INTEGER NOT NULL,
	person VARCHAR NOT NULL,
	verb VARCHAR NOT NULL,
	stage INTEGER NOT NULL,
	also VARCHAR NOT NULL,
	digest VARCHAR NOT NULL,
	reason TEXT NOT NULL,
	for_person VARCHAR NOT NULL,
	created_at BIGINT NOT NULL, passkey_id VARCHAR DEFAULT '' NOT NULL,
	PRIMARY KEY (seq),
	FOREIGN KEY(call_id) REFERENCES call (id),
	UNIQUE (call_id, revision, person, verb)
)
;
CREATE TABLE webhook (
	id VARCHAR NOT NULL,
	run_id VARCHAR NOT NULL,
	kind VARCHAR(16) NOT NULL,
	about VARCHAR NOT NULL,
	key_id VARCHAR NOT NULL,
	made_at BIGINT NOT NULL,
	waits BOOLEAN NOT NULL,
	due_at BIGINT,
	attempts INTEGER NOT NULL,
	told_at BIGINT,
	error VARCHAR NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (run_id, kind, about)
)
;
CREATE INDEX ix_attached_message ON attached (message)
;
CREATE INDEX ix_attached_run_id ON attached (run_id)
;
CREATE INDEX ix_attempt_call_id ON attempt (call_id)
;
CREATE INDEX ix_audit_run_id ON audit (run_id)
;
CREATE INDEX ix_call_asked ON call (run_id, asked_at)
;
CREATE INDEX ix_call_decided ON call (decided_at)
;
CREATE INDEX ix_call_digest ON call (digest)
;
CREATE INDEX ix_call_due ON call (status, deadline, asked_at, starts_at)
;
CREATE INDEX ix_call_look ON call (look_due_at) WHERE look_due_at IS NOT NULL
;
CREATE INDEX ix_call_next ON call (status, next_at) WHERE next_at IS NOT NULL
;
CREATE INDEX ix_call_plan_id ON call (plan_id)
;
CREATE INDEX ix_call_tool ON call (tool, finished_at)
;
CREATE INDEX ix_client_key_name ON client_key (team, name)
;
CREATE INDEX ix_delegation_delegate ON delegation (team, delegate, until)
;
CREATE INDEX ix_delegation_giver ON delegation (team, giver, until)
;
CREATE INDEX ix_delivery_run_id ON delivery (run_id)
;
CREATE INDEX ix_delivery_status ON delivery (status)
;
CREATE INDEX ix_delivery_thread ON delivery (team, channel, thread_ts)
;
CREATE INDEX ix_item_run_id ON item (run_id)
;
CREATE INDEX ix_lane_replica ON lane (replica)
;
CREATE INDEX ix_message_plan_id ON message (plan_id)
;
CREATE INDEX ix_message_run_id ON message (run_id)
;
CREATE INDEX ix_message_status ON message (status)
;
CREATE INDEX ix_message_ts ON message (ts)
;
CREATE INDEX ix_mode_channel ON mode (channel)
;
CREATE INDEX ix_passkey_person ON passkey (team, person)
;
CREATE INDEX ix_plan_run_id ON "plan" (run_id)
;
CREATE INDEX ix_remembered_for ON remembered (team, requester, tool)
;
CREATE INDEX ix_run_client ON run (client, created_at)
;
CREATE INDEX ix_run_lately ON run (team, requester, updated_at)
;
CREATE INDEX ix_run_requester ON run (team, requester, status)
;
CREATE INDEX ix_run_root_id ON run (root_id)
;
CREATE INDEX ix_run_status ON run (status)
;
CREATE INDEX ix_run_thread ON run (team, channel, thread_ts)
;
CREATE INDEX ix_signing_link_person ON signing_link (team, person)
;
CREATE INDEX ix_vote_lately ON vote (person, created_at)
;
CREATE INDEX ix_webhook_due_at ON webhook (due_at)
;
CREATE INDEX ix_webhook_waits ON webhook (waits)
;
CREATE TRIGGER answer_no_delete BEFORE DELETE ON answer BEGIN SELECT RAISE(ABORT, 'answer is append-only'); END
;
CREATE TRIGGER answer_no_update BEFORE UPDATE ON answer WHEN NOT (NEW.given = '{}' AND NEW."seq" IS OLD."seq" AND NEW."call_id" IS OLD."call_id" AND NEW."revision" IS OLD."revision" AND NEW."person" IS OLD."person" AND NEW."declined" IS OLD."declined" AND NEW."created_at" IS OLD."created_at" AND (SELECT purged_at FROM run WHERE id = (SELECT run_id FROM "call" WHERE id = OLD.call_id)) IS NOT NULL) BEGIN SELECT RAISE(ABORT, 'answer is append-only'); END
;
CREATE TRIGGER attempt_no_delete BEFORE DELETE ON attempt BEGIN SELECT RAISE(ABORT, 'attempt is append-only'); END
;
CREATE TRIGGER attempt_no_update BEFORE UPDATE ON attempt BEGIN SELECT RAISE(ABORT, 'attempt is append-only'); END
;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
;
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit WHEN NOT (NEW.payload = '' AND NEW."seq" IS OLD."seq" AND NEW."at" IS OLD."at" AND NEW."run_id" IS OLD."run_id" AND NEW."call_id" IS OLD."call_id" AND NEW."actor" IS OLD."actor" AND NEW."event" IS OLD."event" AND NEW."data" IS OLD."data" AND NEW."key_id" IS OLD."key_id" AND NEW."previous" IS OLD."previous" AND NEW."hash" IS OLD."hash" AND (SELECT purged_at FROM run WHERE id = (OLD.run_id)) IS NOT NULL) BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END
;
CREATE TRIGGER item_no_delete BEFORE DELETE ON item WHEN NOT ((SELECT purged_at FROM run WHERE id = (OLD.run_id)) IS NOT NULL) BEGIN SELECT RAISE(ABORT, 'item is append-only'); END
;
CREATE TRIGGER item_no_update BEFORE UPDATE ON item WHEN NOT (NEW.body = '{}' AND NEW."seq" IS OLD."seq" AND NEW."run_id" IS OLD."run_id" AND NEW."turn" IS OLD."turn" AND NEW."created_at" IS OLD."created_at" AND (SELECT purged_at FROM run WHERE id = (OLD.run_id)) IS NOT NULL) BEGIN SELECT RAISE(ABORT, 'item is append-only'); END
;
CREATE TRIGGER mode_no_delete BEFORE DELETE ON mode BEGIN SELECT RAISE(ABORT, 'mode is append-only'); END
;
CREATE TRIGGER mode_no_update BEFORE UPDATE ON mode BEGIN SELECT RAISE(ABORT, 'mode is append-only'); END
;
CREATE TRIGGER revision_no_delete BEFORE DELETE ON revision BEGIN SELECT RAISE(ABORT, 'revision is append-only'); END
;
CREATE TRIGGER revision_no_update BEFORE UPDATE ON revision WHEN NOT (NEW.arguments = '{}' AND NEW."seq" IS OLD."seq" AND NEW."call_id" IS OLD."call_id" AND NEW."number" IS OLD."number" AND NEW."digest" IS OLD."digest" AND NEW."author" IS OLD."author" AND NEW."created_at" IS OLD."created_at" AND (SELECT purged_at FROM run WHERE id = (SELECT run_id FROM "call" WHERE id = OLD.call_id)) IS NOT NULL) BEGIN SELECT RAISE(ABORT, 'revision is append-only'); END
;
CREATE TRIGGER signature_no_delete BEFORE DELETE ON signature BEGIN SELECT RAISE(ABORT, 'signature is append-only'); END
;
CREATE TRIGGER signature_no_update BEFORE UPDATE ON signature BEGIN SELECT RAISE(ABORT, 'signature is append-only'); END
;
CREATE TRIGGER vote_no_delete BEFORE DELETE ON vote BEGIN SELECT RAISE(ABORT, 'vote is append-only'); END
;
CREATE TRIGGER vote_no_update BEFORE UPDATE ON vote BEGIN SELECT RAISE(ABORT, 'vote is append-only'); END
;
