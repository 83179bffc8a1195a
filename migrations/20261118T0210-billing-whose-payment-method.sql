-- A billing key that names a customer is held against those that setups gave out.
create index setup_by_customer on billing.setup (provider, customer_key) where customer_key is not null;
-- The token that brought a payment method reaches its account alone, so that only the account's own is taken from it.
alter table billing.payment_method add column bound boolean not null default false;
