/** Whose a customer of the provider is, as far as setups tell. */
export type Holder = 'own' | 'other' | 'nobody'

/**
 * Whether a billing key that names a customer may be used. One that nobody here knows may be a card that the
 * business collected before it used this service; a token that is bound to one account would be bringing somebody else's.
 */
export function mayUseCustomer(holder: Holder, bound: boolean): boolean {
  return holder === 'own' || (holder === 'nobody' && !bound)
}
