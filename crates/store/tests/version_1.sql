-- A store of version 1, as the program of that version made it (dumped with every table and row).
BEGIN TRANSACTION;
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    at         INTEGER NOT NULL,
    event      TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES(1,'968tv7k3agcjt7a6fx25qd53',1794784647015,'{"event":"state","from":"created","to":"starting","reason":null}');
INSERT INTO "events" VALUES(2,'968tv7k3agcjt7a6fx25qd53',1794784647095,'{"event":"state","from":"starting","to":"running","reason":null}');
INSERT INTO "events" VALUES(3,'968tv7k3agcjt7a6fx25qd53',1794784647111,'{"event":"state","from":"running","to":"stopping","reason":null}');
INSERT INTO "events" VALUES(4,'968tv7k3agcjt7a6fx25qd53',1794784647143,'{"event":"state","from":"stopping","to":"stopped","reason":null}');
CREATE TABLE intents (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox_id  TEXT NOT NULL,
    kind        TEXT NOT NULL,
    payload     TEXT NOT NULL,
    owner_pid   INTEGER NOT NULL,
    owner_start INTEGER NOT NULL,
    owner_boot  TEXT NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;
INSERT INTO "intents" VALUES(5,'xvn53w249humhwxjmg638q7j','create','null',4242,7,'a-boot',1700000000000);
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
INSERT INTO "meta" VALUES('instance','x34gpmt3em7dpa9aqya2j7d3');
CREATE TABLE sandboxes (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    method       TEXT NOT NULL,
    state        TEXT NOT NULL,
    spec         TEXT NOT NULL,
    uid          INTEGER UNIQUE,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    error        TEXT,
    keeper_pid   INTEGER,
    keeper_start INTEGER,
    keeper_boot  TEXT
) STRICT;
INSERT INTO "sandboxes" VALUES('968tv7k3agcjt7a6fx25qd53','web','bwrap','stopped','{"id":"968tv7k3agcjt7a6fx25qd53","name":"web","method":"bwrap","policy":{"network":"none","workspace":{"kind":"own"},"mounts":[],"tools":[],"opt":false,"resources":{"memory":{"value":8589934592,"source":"default"},"cpus":{"value":4000,"source":"default"},"pids":{"value":4096,"source":"default"},"tmp":1073741824}},"dir":"/srv/user/.local/state/palisade/sandboxes/968tv7k3agcjt7a6fx25qd53","identity":{"uid":1910000000,"gid":1910000000},"owner":"x34gpmt3em7dpa9aqya2j7d3"}',1910000000,1794784646955,1794784647143,NULL,NULL,NULL,NULL);
INSERT INTO "sandboxes" VALUES('n95w82rwki6ncin8nm26r3hf','idle','noop','created','{"id":"n95w82rwki6ncin8nm26r3hf","name":"idle","method":"noop","policy":{"network":"none","workspace":{"kind":"own"},"mounts":[],"tools":[],"opt":false,"resources":{"memory":{"value":8589934592,"source":"default"},"cpus":{"value":4000,"source":"default"},"pids":{"value":4096,"source":"default"},"tmp":1073741824}},"dir":"/srv/user/.local/state/palisade/sandboxes/n95w82rwki6ncin8nm26r3hf","identity":{"uid":1910000001,"gid":1910000001},"owner":"x34gpmt3em7dpa9aqya2j7d3"}',1910000001,1794784647179,1794784647179,NULL,NULL,NULL,NULL);
INSERT INTO "sandboxes" VALUES('xvn53w249humhwxjmg638q7j','broken','bwrap','error','{"id":"xvn53w249humhwxjmg638q7j","name":"broken","method":"bwrap","policy":{"network":"none","workspace":{"kind":"bound","host":"/srv/user","access":"read-write"},"mounts":[],"tools":[],"opt":false,"resources":{"memory":{"value":8589934592,"source":"default"},"cpus":{"value":4000,"source":"default"},"pids":{"value":4096,"source":"default"},"tmp":1073741824}},"dir":"/srv/user/.local/state/palisade/sandboxes/xvn53w249humhwxjmg638q7j","identity":{"uid":1910000002,"gid":1910000002},"owner":"x34gpmt3em7dpa9aqya2j7d3"}',1910000002,1794784647235,1794784647235,'its keeper died',NULL,NULL,NULL);
CREATE TABLE trust (
    path   TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
INSERT INTO "trust" VALUES('/srv/user/project/.palisade/config.toml','87fbc95cd2760af794b79c2eec9aa061eefbc17529de6dbc2684918d37f8caa7',1794784647303);
CREATE INDEX intents_of_sandbox ON intents (sandbox_id);
CREATE INDEX events_of_sandbox ON events (sandbox_id, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('intents',5);
INSERT INTO "sqlite_sequence" VALUES('events',4);
COMMIT;
PRAGMA user_version = 1;
