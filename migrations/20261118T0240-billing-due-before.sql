-- When dunning was to go on before this attempt was begun: where a card that was offered fails, it goes on from there.
alter table billing.payment add column due_before timestamptz;
