-- From version 1 to version 2: what a commitment measured on the validation split and with the shadow model, rolling back,
-- pins, serving, job files. A constraint cannot be changed in place, so commitment is copied, and contribution with it, for
-- its foreign key follows the old table's name.
DROP VIEW snapshot;
DROP VIEW merge;
DROP VIEW named_file;
DROP INDEX commitment_sequence;
DROP INDEX commitment_model;
DROP INDEX commitment_half;
ALTER TABLE contribution RENAME TO contribution_1;
ALTER TABLE commitment RENAME TO commitment_1;

CREATE TABLE commitment (
  job                 INTEGER NOT NULL REFERENCES job (id),
  round               INTEGER NOT NULL,
  sub                 INTEGER NOT NULL,
  sequence            INTEGER NOT NULL,
  outcome             TEXT    NOT NULL CHECK (outcome IN ('merged', 'short', 'jumped', 'merge-refused', 'adopted',
                                                          'rolled-back')),
  model               BLOB    CHECK (length(model) = 32),  -- file: the merged model
  half                BLOB    CHECK (length(half) = 32),   -- file: what merging does not change
  shadow              BLOB    CHECK (length(shadow) = 32), -- file: the model that is trained alone; NULL: none
  shadow_headline     REAL,
  shadow_seconds      REAL,
  local_loss          REAL, -- NULL: not measured
  local_headline      REAL,
  local_macro_f1      REAL,
  local_balanced      REAL, -- balanced accuracy
  global_loss         REAL,
  global_headline     REAL,
  global_macro_f1     REAL,
  global_balanced     REAL,
  validation_loss     REAL,
  validation_headline REAL,
  seconds             REAL,
  sent_bytes          INTEGER NOT NULL,
  received_bytes      INTEGER NOT NULL,
  committed_unix_s    INTEGER NOT NULL DEFAULT (unixepoch()),
  PRIMARY KEY (job, round, sub)
) STRICT, WITHOUT ROWID;

INSERT INTO commitment (job, round, sub, sequence, outcome, model, half, local_loss, local_headline, local_macro_f1,
  global_loss, global_headline, global_macro_f1, seconds, sent_bytes, received_bytes, committed_unix_s)
  SELECT job, round, sub, sequence, outcome, model, half, local_loss, local_headline, local_macro_f1,
  global_loss, global_headline, global_macro_f1, seconds, sent_bytes, received_bytes, committed_unix_s
  FROM commitment_1;

CREATE TABLE contribution (
  job        INTEGER NOT NULL,
  round      INTEGER NOT NULL,
  sub        INTEGER NOT NULL,
  origin     BLOB    NOT NULL CHECK (length(origin) = 32),
  name       TEXT    NOT NULL,
  reason     TEXT    NOT NULL, -- stable name of the error list; 'ok': merged
  clipped    INTEGER NOT NULL,
  lag        INTEGER NOT NULL,
  weight     REAL,
  epoch      INTEGER NOT NULL,
  sequence   INTEGER NOT NULL,
  n_bytes    INTEGER NOT NULL,
  arrival_ms INTEGER NOT NULL, -- after our own payload was durable; -1: it did not arrive
  PRIMARY KEY (job, round, sub, origin),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

INSERT INTO contribution SELECT * FROM contribution_1;
DROP TABLE contribution_1;
DROP TABLE commitment_1;

CREATE INDEX commitment_sequence ON commitment (job, sequence);
CREATE INDEX commitment_model ON commitment (job, round, sub, model) WHERE model IS NOT NULL;
CREATE INDEX commitment_half ON commitment (job, round, sub, half) WHERE half IS NOT NULL;
CREATE INDEX commitment_shadow ON commitment (job, round, sub, shadow) WHERE shadow IS NOT NULL;

CREATE TABLE roll_back (
  job       INTEGER NOT NULL,
  round     INTEGER NOT NULL,
  sub       INTEGER NOT NULL,
  to_round  INTEGER NOT NULL,
  to_sub    INTEGER NOT NULL,
  note      TEXT    NOT NULL,
  at_unix_s INTEGER NOT NULL,
  PRIMARY KEY (job, round, sub),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE pin (
  job       INTEGER NOT NULL,
  round     INTEGER NOT NULL,
  sub       INTEGER NOT NULL,
  note      TEXT    NOT NULL,
  at_unix_s INTEGER NOT NULL,
  PRIMARY KEY (job, round, sub),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE serving (
  job       INTEGER PRIMARY KEY REFERENCES job (id),
  mode      TEXT    NOT NULL CHECK (mode IN ('best', 'latest', 'pinned')),
  round     INTEGER NOT NULL,
  sub       INTEGER NOT NULL,
  at_unix_s INTEGER NOT NULL
) STRICT;

CREATE TABLE serving_job (
  name      TEXT    PRIMARY KEY,
  version   INTEGER NOT NULL,
  at_unix_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE job_file (
  digest    BLOB    PRIMARY KEY CHECK (length(digest) = 32),
  name      TEXT    NOT NULL,
  version   INTEGER NOT NULL,
  proposer  BLOB    NOT NULL CHECK (length(proposer) = 32),
  signature BLOB    NOT NULL CHECK (length(signature) = 64),
  text      TEXT    NOT NULL,
  state     TEXT    NOT NULL CHECK (state IN ('proposed', 'accepted', 'stopped')),
  at_unix_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW named_file (name) AS
  SELECT payload FROM publication WHERE payload IS NOT NULL
  UNION ALL
  SELECT half FROM publication WHERE half IS NOT NULL
  UNION ALL
  SELECT model FROM commitment WHERE model IS NOT NULL
  UNION ALL
  SELECT half FROM commitment WHERE half IS NOT NULL
  UNION ALL
  SELECT shadow FROM commitment WHERE shadow IS NOT NULL;

CREATE VIEW merge (job, round, sub, sequence) AS
  SELECT job, round, sub, sequence FROM commitment WHERE outcome NOT IN ('jumped', 'adopted', 'rolled-back');

CREATE VIEW snapshot (job, round, sub, committed, sequence, half, model, payload) AS
  SELECT job, round, sub, 1, sequence, half, model, NULL
    FROM commitment INDEXED BY commitment_model WHERE model IS NOT NULL
  UNION ALL
  SELECT job, round, sub, 0, sequence, half, NULL, payload
    FROM publication INDEXED BY publication_half WHERE half IS NOT NULL;

CREATE VIEW standing (job, round, sub, mean) AS
  SELECT job, round, sub,
         (SELECT iif(count(headline) = 3, avg(headline), NULL)
            FROM (SELECT b.validation_headline AS headline FROM commitment b
                   WHERE b.job = c.job AND (b.round, b.sub) <= (c.round, c.sub)
                   ORDER BY b.round DESC, b.sub DESC LIMIT 3))
    FROM commitment c INDEXED BY commitment_model WHERE model IS NOT NULL;
