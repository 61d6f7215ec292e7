-- The label of the credential that made an object, where its provider has several; null: unknown.
alter table object add column credential text;
