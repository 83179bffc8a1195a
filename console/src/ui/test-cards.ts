/** The sandbox provider's cards, and what each of them does. */
export const testCards = [
  'bk_test_ok',
  'bk_test_insufficient_funds',
  'bk_test_stolen',
  'bk_test_expired',
  'bk_test_fails_on_renewal',
  'bk_test_timeout_after_charge',
  'bk_test_error_before_charge',
  'bk_test_slow',
  'bk_test_refund_fails',
  'bk_test_refund_timeout',
] as const
