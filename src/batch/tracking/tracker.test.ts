import { expect, test } from 'vitest'
import { dayAfter, firstCheckDay, planOf } from './tracker.ts'

test('a window is read by the clocks of its zone, also past midnight and over a change of clocks', () => {
  expect(planOf('2030-01-15', { from: '01:00', to: '06:00', zone: 'Asia/Seoul' })).toEqual({
    day: '2030-01-15',
    opensAt: new Date('2030-01-14T16:00:00Z'),
    lastSlotAt: new Date('2030-01-14T21:00:00Z'),
    closesAt: new Date('2030-01-15T15:00:00Z'),
  })
  const night = planOf('2030-01-15', { from: '22:00', to: '04:00', zone: 'UTC' })
  expect([night.opensAt, night.lastSlotAt, night.closesAt]).toEqual([
    new Date('2030-01-15T22:00:00Z'),
    new Date('2030-01-16T02:00:00Z'),
    new Date('2030-01-16T04:00:00Z'),
  ])
  const short = planOf('2030-03-31', { from: '00:00', to: '24:00', zone: 'Europe/Berlin' })
  expect(short.closesAt.getTime() - short.opensAt.getTime()).toBe(23 * 3_600_000)
  // No slot lies so late that its day would close before it is made; of a short window half is left.
  expect(short.closesAt.getTime() - short.lastSlotAt.getTime()).toBe(2 * 3_600_000)
  const late = planOf('2030-01-15', { from: '23:00', to: '24:00', zone: 'UTC' })
  expect(late.lastSlotAt).toEqual(new Date('2030-01-15T23:30:00Z'))
})

test('weeks and months are counted from the first day, so that they never drift', () => {
  expect(dayAfter('2030-01-15', 'day', '2030-01-31')).toBe('2030-02-01')
  expect(dayAfter('2030-01-15', 'week', '2030-01-15')).toBe('2030-01-22')
  expect(dayAfter('2030-01-15', 'week', '2030-02-27')).toBe('2030-03-05')
  expect(dayAfter('2030-01-31', 'month', '2030-01-31')).toBe('2030-02-28')
  expect(dayAfter('2030-01-31', 'month', '2030-02-28')).toBe('2030-03-31')
  expect(dayAfter('2030-01-31', 'month', '2030-03-15')).toBe('2030-03-31')
  expect(dayAfter('2030-01-31', 'month', '2030-12-31')).toBe('2031-01-31')
})

test('a tracker starts today unless the window is over', () => {
  const window = { from: '01:00', to: '06:00', zone: 'UTC' }
  expect(firstCheckDay(window, new Date('2030-01-15T05:59:00Z'))).toBe('2030-01-15')
  expect(firstCheckDay(window, new Date('2030-01-15T06:00:00Z'))).toBe('2030-01-16')
})
