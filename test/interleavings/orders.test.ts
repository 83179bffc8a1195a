import { expect, test } from 'vitest'
import { allOrders, readOrder, renderOrder, sample, threeSwitches, twoSwitches } from './orders.ts'

const texts = (orders: ReturnType<typeof allOrders>) => orders.map(renderOrder)

test('five cuts on either side can be mixed in 252 ways, all different', () => {
  expect(new Set(texts(allOrders(5, 5))).size).toBe(252)
  expect(texts(allOrders(2, 1))).toEqual(['A2B1', 'A1B1A1', 'B1A2'])
})

test('every statement is a place to leave a side once', () => {
  expect(texts(twoSwitches(2, 1))).toEqual(['A1B*A*', 'A2B*A*', 'B1A*B*'])
  expect(texts(threeSwitches(1, 2))).toEqual(['A1B1A*B*', 'A1B2A*B*', 'B1A1B*A*', 'B2A1B*A*'])
})

test('an order is read back as it was written', () => {
  for (const text of ['A3B2A1B4', 'A7B3A*B*']) expect(renderOrder(readOrder(text, 'statements'))).toBe(text)
  expect(() => readOrder('A3C2', 'cuts')).toThrow('A3C2 is no order')
})

test('a seed draws the same orders every time, none of them twice', () => {
  const orders = texts(allOrders(4, 4))
  expect(sample(orders, 20, 7)).toEqual(sample(orders, 20, 7))
  expect(sample(orders, 20, 7)).not.toEqual(sample(orders, 20, 8))
  expect(new Set(sample(orders, 100, 7)).size).toBe(70)
})
