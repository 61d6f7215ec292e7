-- What a key may use itself, where it was told when the key was made; null: what gateway.yaml says of all keys.
alter table key add column limits text;       -- JSON: rpm, tpm, concurrency, budgets in nano-dollars
