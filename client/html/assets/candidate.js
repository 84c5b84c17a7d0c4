// Figures of one candidate. KLD in nats; null stands for infinite.
"use strict";
(function () {
  var A = Assay;
  function log10(x) { return Math.log(x) / Math.LN10; }
  function percent(x) { return A.number(100 * x, 4) + " %"; }

  // Four published buckets to a bar; the first and the last bucket have no width.
  function bars(d) {
    var out = { inside: [], below: 0, above: 0 }, groups = {};
    d.counts.forEach(function (entry) {
      var bucket = entry[0], count = entry[1];
      if (bucket === 0) out.below += count;
      else if (bucket === d.edges) out.above += count;
      else {
        var g = Math.floor((bucket - 1) / 4);
        groups[g] = (groups[g] || 0) + count;
      }
    });
    Object.keys(groups).map(Number).sort(function (a, b) { return a - b; }).forEach(function (g) {
      out.inside.push({ from: d.log10_low + 4 * g / d.per_decade, to: d.log10_low + 4 * (g + 1) / d.per_decade, count: groups[g] });
    });
    return out;
  }

  // Rows for the names of marks, so that none covers another: [{name, at: x, row}].
  function place(marks, x, width) {
    var rows = [];
    return marks.map(function (m) {
      var half = m.name.length * 3.4 + 4, at = Math.max(half, Math.min(x(m.at), width - half)), row = 0;
      while (rows[row] !== undefined && rows[row] > at - half) ++row;
      rows[row] = at + half;
      return { name: m.name, at: at, row: row };
    });
  }

  A.plots.distribution = function (element, width, head) {
    var d = head.distribution, b = bars(d), left = 52, right = width - 12;
    var kinds = [["p50", "median"], ["mean", "mean"], ["p99", "99%"], ["p999", "99.9%"], ["max", "max"]];
    var marks = kinds.filter(function (n) { return d.marks[n[0]] > 0; })
      .map(function (n) { return { name: n[1], at: log10(d.marks[n[0]]), value: d.marks[n[0]] }; })
      .sort(function (m, n) { return m.at - n.at; });
    var low = b.inside.length ? b.inside[0].from : -12, high = b.inside.length ? b.inside[b.inside.length - 1].to : -11;
    var first = Math.floor(low * 2) / 2, last = Math.ceil(high * 2) / 2;  // the axis; beside it what has no width
    low = first - (b.below ? 1 : 0);
    high = last + (b.above ? 1 : 0);
    var x = d3.scale.linear().domain([low, high]).range([left, right]);
    var names = place(marks, x, width), deep = d3.max(names, function (n) { return n.row + 1; }) || 0;
    var top = 30 + 14 * deep, bottom = top + 154, top2 = bottom + 50, bottom2 = top2 + 140;
    var root = A.svg(element, width, bottom2 + 44, "KLD of " + d.total + " positions; the table below has the numbers");
    // Shares of bars.
    var shown = b.inside.map(function (g) { return { from: g.from, to: g.to, count: g.count, name: A.number(Math.pow(10, g.from), 3) + " to " + A.number(Math.pow(10, g.to), 3) }; });
    if (b.below) shown.unshift({ from: low + 0.25, to: low + 0.75, count: b.below, name: "below 1e-12, zero included", outside: true });
    if (b.above) shown.push({ from: high - 0.75, to: high - 0.25, count: b.above, name: "100 and more, infinite included", outside: true });
    var y = d3.scale.linear().domain([0, d3.max(shown, function (g) { return g.count / d.total; }) || 1]).nice().range([bottom, top]);
    A.axisY(root, y, left, right, y.ticks(4), function (t) { return A.number(100 * t, 3) + " %"; });
    A.text(root, left, 12, "share of positions", "start");
    A.telling(root.selectAll("rect.bar").data(shown).enter().append("rect")
      .attr("class", function (g) { return g.outside ? "bar outside" : "bar"; })
      .attr("x", function (g) { return x(g.from) + 0.5; })
      .attr("width", function (g) { return Math.max(1, x(g.to) - x(g.from) - 1); })
      .attr("y", function (g) { return Math.min(y(g.count / d.total), bottom - 1); })
      .attr("height", function (g) { return Math.max(1, bottom - y(g.count / d.total)); }),
      function (g) { return "KLD " + g.name + " nats\n" + g.count + " positions, " + percent(g.count / d.total); });
    root.selectAll("line.mark").data(marks).enter().append("line").attr("class", "mark")
      .attr("x1", function (m) { return x(m.at); }).attr("x2", function (m) { return x(m.at); })
      .attr("y1", top - 6).attr("y2", bottom);
    names.forEach(function (n) { A.text(root, n.at, top - 10 - 14 * n.row, n.name, "middle", "strong"); });
    var ticks = b.inside.length ? A.powers(first, last, Math.floor(width / 60)) : [];
    if (b.below) A.text(root, x(low + 0.5), bottom + 18, "<" + A.power(-12), "middle");
    if (b.above) A.text(root, x(high - 0.5), bottom + 18, "\u2265100", "middle");
    A.axisX(root, x, bottom, ticks, A.power, "");
    // Share above.
    var floor = Math.floor(log10(1 / d.total));
    var y2 = d3.scale.linear().domain([floor, 0]).range([bottom2, top2]);
    A.axisY(root, y2, left, right, A.powers(floor, 0, 5), A.power);
    A.text(root, left, top2 - 10, "share of positions with a larger KLD, logarithmic", "start");
    var above = d.total - b.below, points = [[low, above]];
    b.inside.forEach(function (g) {
      points.push([g.from, above]);
      above -= g.count;
      points.push([g.to, above]);
    });
    points.push([high, above]);
    root.append("path").attr("class", "curve").attr("d", d3.svg.line()
      .x(function (p) { return x(p[0]); })
      .y(function (p) { return y2(Math.max(floor, log10(p[1] / d.total))); })(
      points.filter(function (p) { return p[1] > 0; })));
    var thresholds = d.exceedance.filter(function (t) {
      return t.positions > 0 && log10(t.threshold) >= low && log10(t.threshold) <= high;
    });
    A.telling(root.selectAll("circle.dot").data(thresholds).enter().append("circle").attr("class", "dot").attr("r", 5)
      .attr("cx", function (t) { return x(log10(t.threshold)); })
      .attr("cy", function (t) { return y2(log10(t.fraction)); }),
      function (t) { return "KLD above " + A.number(t.threshold) + " nats\n" + t.positions + " positions, " + percent(t.fraction); });
    A.axisX(root, x, bottom2, ticks, A.power, "KLD (nats)");
  };

  A.plots.strata = function (element, width, head) {
    var rows = head.strata, all = head.overall, step = 26, top = 8, bottom = top + step * rows.length;
    var room = Math.min(0.36 * width, 12 + 7.2 * d3.max(rows, function (r) { return A.visible(r.name).length; }));
    var most = d3.max(rows, function (r) { return Math.max(r.high || 0, r.mean || 0); });
    var x = d3.scale.linear().domain([0, Math.max(most, all.high || 0, all.mean || 0) || 1]).nice().range([room, width - 20]);
    var root = A.svg(element, width, bottom + 44, "Mean KLD of each stratum; the table below has the numbers");
    var ticks = x.ticks(Math.max(2, Math.floor((width - room) / 90)));
    root.append("g").attr("class", "grid").selectAll("line").data(ticks).enter().append("line")
      .attr("x1", x).attr("x2", x).attr("y1", top).attr("y2", bottom);
    if (all.low !== null && all.high !== null) {
      root.append("rect").attr("class", "band").attr("x", x(all.low)).attr("width", x(all.high) - x(all.low))
        .attr("y", top).attr("height", bottom - top);
    }
    if (all.mean !== null) {
      root.append("line").attr("class", "mark").attr("x1", x(all.mean)).attr("x2", x(all.mean)).attr("y1", top).attr("y2", bottom);
    }
    rows.forEach(function (r, i) {
      var y = top + step * (i + 0.5), name = A.visible(r.name), fits = Math.floor((room - 12) / 7.2);
      A.text(root, room - 10, y + 4, name.length > fits ? name.slice(0, fits - 1) + "\u2026" : name, "end", "strong");
      if (r.mean === null) A.text(root, room + 6, y + 4, "infinite");
      if (r.low === null || r.high === null) return;
      root.append("path").attr("class", "whisker")
        .attr("d", "M" + x(r.low) + "," + (y - 4) + "v8m0,-4H" + x(r.high) + "m0,-4v8");
    });
    A.telling(root.selectAll("circle.dot").data(rows.filter(function (r) { return r.mean !== null; })).enter()
      .append("circle").attr("class", "dot").attr("r", 5).attr("cx", function (r) { return x(r.mean); })
      .attr("cy", function (r) { return top + step * (rows.indexOf(r) + 0.5); }),
      function (r) {
        return A.visible(r.name) + "\nmean KLD " + A.number(r.mean) + " nats\n" +
          (r.low === null ? "no interval: fewer than eight documents" : "95 % [" + A.number(r.low) + ", " + A.number(r.high) + "]");
      });
    A.axisX(root, x, bottom, ticks, function (t) { return A.number(t, 3); }, "mean KLD (nats)");
  };

  A.plots.contexts = function (element, width, head) {
    var rows = head.contexts, left = 52, right = width - 12, top = 24, bottom = 184;
    var positive = rows.map(function (r) { return r[2]; }).filter(function (m) { return m > 0; });
    var low = positive.length ? Math.floor(log10(d3.min(positive)) * 2 - 0.2) / 2 : -1;
    var high = positive.length ? Math.max(log10(d3.max(positive)), low + 0.5) : 0;
    var y = d3.scale.linear().domain([low, high]).range([bottom, top]);
    var step = (right - left) / rows.length;
    var root = A.svg(element, width, 208, "Mean KLD of " + rows.length + " contexts");
    A.axisY(root, y, left, right, positive.length ? A.ticksLog(low, high, 5) : [], function (t) { return A.number(Math.pow(10, t), 2); });
    A.text(root, left, 12, positive.length ? "mean KLD (nats)" : "mean KLD: zero or infinite everywhere", "start");
    var worst = head.worst_contexts, place = {};
    rows.forEach(function (r, i) { place[r[0]] = i; });
    var bars = root.selectAll("rect.bar").data(rows).enter().append("rect")
      .attr("class", function (r) { return worst.slice(0, Math.ceil(rows.length / 10)).indexOf(r[0]) >= 0 ? "bar worst" : "bar"; })
      .attr("x", function (r, i) { return left + step * i; }).attr("width", Math.max(0.6, step - (step > 3 ? 1 : 0)))
      .attr("y", function (r) { return r[2] === null ? top : r[2] > 0 ? y(log10(r[2])) : bottom - 1; })
      .attr("height", function (r) { return r[2] === null ? bottom - top : r[2] > 0 ? Math.max(1, bottom - y(log10(r[2]))) : 1; });
    root.append("g").attr("class", "axis").append("line").attr("x1", left).attr("x2", right).attr("y1", bottom).attr("y2", bottom);
    A.text(root, left, bottom + 18, "context " + rows[0][0], "start");
    if (rows.length > 1) A.text(root, right, bottom + 18, "context " + rows[rows.length - 1][0], "end");
    root.append("rect").attr("class", "catch").attr("x", left).attr("y", top).attr("width", right - left).attr("height", bottom - top);
    var selected = null;
    var move = A.cursor(element, root, { top: top, bottom: bottom }, rows.map(function (r, i) { return left + step * (i + 0.5); }),
      function (i) {
        var r = rows[i];
        return "Context " + r[0] + ", " + A.visible(head.strata_names[r[1]]) + ": mean KLD " + A.number(r[2]) + " nats, largest " +
          A.number(r[3]) + ", same top " + A.number(100 * r[4] / r[5], 4) + " %";
      },
      function (i) {
        if (selected) selected.classed("sel", false);
        selected = d3.select(bars[0][i]).classed("sel", true);
      },
      worst.map(function (index) { return place[index]; }));
    var chips = document.createElement("div");
    chips.className = "chips";
    chips.appendChild(document.createTextNode("Worst first:"));
    worst.slice(0, 10).forEach(function (index) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = index;
      button.setAttribute("aria-label", "Show context " + index);
      button.addEventListener("click", function () { move(place[index]); });
      chips.appendChild(button);
    });
    element.appendChild(chips);
  };

  A.plots.curve = function (element, width, head) {
    var rows = head.curve, left = 60, right = width - 16, top = 24, bottom = 210;
    var values = [];
    rows.forEach(function (r) {
      if (r[3] > 0) values.push(r[3]);
      if (r[4] > 0) values.push(r[4]);
    });
    var low = values.length ? log10(d3.min(values)) - 0.1 : -1, high = values.length ? log10(d3.max(values)) + 0.1 : 0;
    if (high - low < 1) { low -= 0.5; high += 0.5; }
    var end = rows[rows.length - 1][1];
    var x = d3.scale.log().domain([rows[0][0] + 1, Math.max(end + 1, rows[0][0] + 2)]).range([left, right]);
    var y = d3.scale.linear().domain([low, high]).range([bottom, top]);
    function middle(r) { return x(Math.sqrt((r[0] + 1) * (r[1] + 1))); }
    function height(v) { return y(Math.max(low, v > 0 ? log10(v) : low)); }
    var root = A.svg(element, width, 256, "KLD by position in the context");
    A.axisY(root, y, left, right, values.length ? A.ticksLog(low, high, 5) : [], function (t) { return A.number(Math.pow(10, t), 2); });
    A.text(root, left, 12, values.length ? "KLD (nats)" : "KLD: zero or infinite everywhere", "start");
    [[4, "curve thin"], [3, "curve"]].forEach(function (line) {
      root.append("path").attr("class", line[1]).attr("d", d3.svg.line().defined(function (r) { return r[line[0]] !== null; })
        .x(middle).y(function (r) { return height(r[line[0]]); })(rows));
    });
    root.selectAll("circle").data(rows.filter(function (r) { return r[3] !== null; })).enter().append("circle")
      .attr("class", "dot").attr("r", 3).attr("cx", middle).attr("cy", function (r) { return height(r[3]); });
    var ticks = [0, 1, 3, 9, 31, 99, 315, 999, 3161, 9999, 31621, 99999].filter(function (t) { return t >= rows[0][0] && t <= end; });
    if (width < 500) ticks = ticks.filter(function (t, i) { return i % 2 === 0; });
    A.axisX(root, scaled(x), bottom, ticks, String, "position in the context");
    root.append("rect").attr("class", "catch").attr("x", left).attr("y", top).attr("width", right - left).attr("height", bottom - top);
    A.cursor(element, root, { top: top, bottom: bottom }, rows.map(middle), function (i) {
      var r = rows[i];
      return (r[0] === r[1] ? "Position " + r[0] : "Positions " + r[0] + " to " + r[1]) + ": mean KLD " + A.number(r[3]) +
        " nats, largest " + A.number(r[4]) + ", same top " + A.number(100 * r[5] / r[2], 4) + " % of " + r[2] + " positions";
    });
  };

  // Positions count from 0, logarithms from 1.
  function scaled(x) {
    function f(t) { return x(t + 1); }
    f.range = x.range;
    return f;
  }

  A.start();
})();
