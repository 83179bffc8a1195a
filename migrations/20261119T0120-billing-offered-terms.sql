-- What a trial will cost is agreed on when its payment method is offered, however long the provider keeps that waiting.
alter table billing.payment_method add column plan_terms jsonb;
