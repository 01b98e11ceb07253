/** How many events come per second, as a number over the last seconds and a line over the last minute. */

import { Tile } from "../charts.js";

const SECONDS = 60;
const AVERAGED = 5;

export function createRate() {
  const tile = new Tile({ title: "Events per second", format: (value) => value.toFixed(1), length: SECONDS });
  const recent = new Array(AVERAGED).fill(0);
  let count = 0;
  const timer = setInterval(() => {
    recent.shift();
    recent.push(count);
    count = 0;
    tile.push(recent.reduce((sum, value) => sum + value, 0) / AVERAGED);
  }, 1000);
  return {
    element: tile.element,
    count() {
      count += 1;
    },
    stop() {
      clearInterval(timer);
    },
  };
}
