-- What these alarms are about is a payment method everywhere else.
update platform.alarm set kind = 'payment_method_not_deleted' where kind = 'card_not_deleted';
update platform.alarm set kind = 'payment_method_lost_in_restore' where kind = 'card_lost_in_restore';
