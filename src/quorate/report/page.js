// The slider: moves one operating point through all charts, over the recorded sweep. Nothing is fetched, nothing kept.
(function () {
  "use strict";
  var source = document.getElementById("sweeps");
  if (!source) return;
  var data = JSON.parse(source.textContent);
  var slider = document.getElementById("slider");
  var charts = Array.prototype.map.call(document.querySelectorAll('svg[data-chart^="cost-"]'), function (svg) {
    return { svg: svg, cost: svg.dataset.chart.slice(5), scale: svg.dataset.scale.split(" ").map(Number) };
  });
  var picks = Array.prototype.slice.call(document.querySelectorAll("[data-pick]"));
  var sweep = null;

  function size(x) {
    if (Math.abs(x) >= 1e9) return (x / 1e9).toFixed(2) + " G";
    if (Math.abs(x) >= 1e6) return (x / 1e6).toFixed(2) + " M";
    return Math.abs(x) >= 100 ? Math.round(x).toLocaleString("en") : x.toPrecision(3);
  }

  function reading(value, said, more) {
    var box = document.createElement("div"), b = document.createElement("b");
    b.textContent = value;
    box.append(said, b, more);
    return box;
  }

  function move(g) {
    g = Math.max(0, Math.min(sweep.thresholds.length - 1, g));
    slider.value = g;
    document.getElementById("threshold").textContent = sweep.thresholds[g].toPrecision(4);
    slider.setAttribute("aria-valuetext", "threshold " + sweep.thresholds[g].toPrecision(4));
    charts.forEach(function (chart) {
      var s = chart.scale, here = chart.svg.querySelector(".here"), cost = sweep.costs[chart.cost];
      var drawn = Array.prototype.some.call(chart.svg.querySelectorAll(".series"), function (one) {
        return one.dataset.series === sweep.group;
      });
      var y = 100 * sweep.accuracy[g];
      if (!cost || !drawn || y < s[2]) { here.setAttribute("visibility", "hidden"); return; }
      here.setAttribute("visibility", "visible");
      here.setAttribute("cx", s[4] + (cost[g] - s[0]) / (s[1] - s[0]) * (s[5] - s[4]));
      here.setAttribute("cy", s[6] - (y - s[2]) / (s[3] - s[2]) * (s[6] - s[7]));
    });
    var gap = 100 * (sweep.accuracy[g] - data.static.accuracy);
    var boxes = [reading((100 * sweep.accuracy[g]).toFixed(2) + " %", "accuracy",
      (gap >= 0 ? "+" : "") + gap.toFixed(2) + " ± " + (100 * sweep.accuracy_error[g]).toFixed(2))];
    Object.keys(data.titles).forEach(function (cost) {
      if (!sweep.costs[cost]) return;
      var x = sweep.costs[cost][g], whole = data.static.costs[cost];
      boxes.push(reading(size(x), data.titles[cost], whole ? Math.round(100 * x / whole) + " % of static" : ""));
    });
    document.getElementById("readings").replaceChildren.apply(document.getElementById("readings"), boxes);
    var bars = document.getElementById("exits").children, said = [];
    sweep.left.forEach(function (left, e) {
      bars[e].style.width = 100 * left[g] + "%";
      said.push("exit " + e + ": " + (100 * left[g]).toFixed(1) + " %");
    });
    bars[bars.length - 1].style.width = 100 * sweep.forced[g] + "%";
    said.push("forced: " + (100 * sweep.forced[g]).toFixed(1) + " %");
    document.getElementById("exits-said").textContent = said.join("   ");
  }

  function pick(i, chosen) {
    sweep = data.sweeps[i];
    slider.max = sweep.thresholds.length - 1;
    picks.forEach(function (button, j) { button.setAttribute("aria-pressed", String(i === j)); });
    document.querySelectorAll('svg[data-chart^="cost-"] [data-series]').forEach(function (one) {
      one.classList.toggle("dim", chosen && one.dataset.series !== sweep.group);
    });
    move(sweep.chosen[/arrival/.test(sweep.group) ? "free-running" : "lazy"]);
  }

  picks.forEach(function (button, i) { button.addEventListener("click", function () { pick(i, true); }); });
  slider.addEventListener("input", function () { move(Number(slider.value)); });
  ["lazy", "free-running"].forEach(function (device) {
    document.getElementById("to-" + device).addEventListener("click", function () { move(sweep.chosen[device]); });
  });
  document.documentElement.classList.add("js");
  var first = data.sweeps.findIndex(function (one) { return /^pool/.test(one.group); });
  pick(Math.max(0, first), false);
})();
