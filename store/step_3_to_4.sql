-- From version 3 to version 4: the accuracy on each task.
-- How good a committed model is on each task, where the job has tasks that are learnt one after the other: R of continual learning.
-- position is the place in this site's order at that time, trained the task that stood there.
CREATE TABLE task_accuracy (
  job      INTEGER NOT NULL,
  round    INTEGER NOT NULL,
  sub      INTEGER NOT NULL,
  task     INTEGER NOT NULL,
  position INTEGER NOT NULL,
  trained  INTEGER NOT NULL,
  accuracy REAL, -- NULL: the test set has no sample of the task
  PRIMARY KEY (job, round, sub, task),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX task_accuracy_position ON task_accuracy (job, position, round, sub);
