-- What the provider itself called the reason of a failed payment, for an operator's eyes.
alter table billing.payment add column provider_code text check (length(provider_code) <= 200);
