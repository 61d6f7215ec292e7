/** Charts, by uPlot. They are visual only: a table beside each has the same figures. */

import { html, useEffect, useRef } from "../common/ui.js";
import uPlot from "../lib/uplot.js";

/** Colours that are distinguishable in both themes and by most people. */
const COLOURS = ["#3d7dd8", "#e08a1e", "#2f9e6e", "#b45bc9", "#c8503f", "#7c8796"];
const HEIGHT = 220;
const DAY = 86_400;

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Returns the computed colour of the current theme: the browser evaluates `light-dark()`. */
function themed(name) {
  const probe = document.body.appendChild(document.createElement("span"));
  probe.style.color = styleOf(name);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/**
 * Stacked bars for each day.
 * @param days Unix seconds of each day's start, as if it were in UTC
 * @param zone the time zone of the days
 * @param series `{ name, values }`, with one value per day
 * @param write formats a value
 */
export function StackedBars({ days, series, zone, write, label }) {
  const place = useRef();
  useEffect(() => {
    const draw = () => {
      place.current.replaceChildren();
      return new uPlot(
        optionsOf(days, series, zone, write, place.current.clientWidth),
        [days, ...stacked(series)],
        place.current,
      );
    };
    let plot = draw();
    const again = () => {
      plot.destroy();
      plot = draw();
    };
    const resized = new ResizeObserver(() => plot.setSize({ width: place.current.clientWidth, height: HEIGHT }));
    resized.observe(place.current);
    addEventListener("theme", again);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", again);
    return () => {
      resized.disconnect();
      removeEventListener("theme", again);
      system.removeEventListener("change", again);
      plot.destroy();
    };
  }, [JSON.stringify([days, series])]);
  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}

/** Returns cumulated values, the highest first, so that lower ones are drawn in front of it. */
function stacked(series) {
  const sums = [];
  const below = [];
  for (const { values } of series) {
    values.forEach((value, at) => {
      below[at] = (below[at] ?? 0) + value;
    });
    sums.push([...below]);
  }
  return sums.reverse();
}

/** Without a pointer on the chart, its legend has the sums of all days. */
function optionsOf(days, series, zone, write, width) {
  const [line, text] = [themed("--line"), themed("--quiet")];
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const drawn = series
    .map(({ name, values }, at) => ({
      ...{ name, values, colour: COLOURS[at % COLOURS.length] },
      all: values.reduce((sum, value) => sum + value, 0),
    }))
    .reverse();
  return {
    width,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { range: [days[0] - DAY / 2, days.at(-1) + DAY / 2] }, y: { range: (_, __, most) => [0, most || 1] } },
    axes: [
      {
        ...axis,
        values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toISOString().slice(5, 10)),
        incrs: [DAY, 2 * DAY, 7 * DAY],
      },
      { ...axis, size: 84, values: (_, ticks) => ticks.map(write) },
    ],
    cursor: { drag: { x: false, y: false } },
    series: [
      {
        value: (_, seconds) => (seconds === null ? "all" : new Date(seconds * 1000).toISOString().slice(0, 10)),
        label: `Day (${zone})`,
      },
      ...drawn.map(({ name, values, colour, all }) => ({
        label: name,
        stroke: colour,
        fill: colour,
        width: 0,
        points: { show: false },
        paths: uPlot.paths.bars({ size: [0.7, 60] }),
        value: (_, __, ___, index) => write(index === null ? all : values[index]),
      })),
    ],
  };
}
