-- What is stored, and deleted once nobody uses it, is a payment method everywhere else.
alter table billing.card_to_delete rename to payment_method_to_delete;
alter index billing.card_to_delete_due rename to payment_method_to_delete_due;
