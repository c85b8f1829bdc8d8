-- From version 2 to version 3: no table changes. New files are named by the root of their Merkle tree, which an older program
-- would take for damage; those that stand keep their names.
SELECT 1;
