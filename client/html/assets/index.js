// Figures over all candidates. KLD in nats; null stands for infinite or unknown.
"use strict";
(function () {
  var A = Assay;
  function log10(x) { return Math.log(x) / Math.LN10; }
  function bytes(x) {
    if (x >= 1e9) return (x / 1e9).toFixed(3) + " GB";
    return x >= 1e6 ? (x / 1e6).toFixed(1) + " MB" : x + " B";
  }

  // Points that no other is both smaller and closer than, by size.
  function front(points) {
    var best = Infinity;
    return points.slice().sort(function (a, b) { return a.bytes - b.bytes || a.mean - b.mean; })
      .filter(function (p) {
        if (p.mean >= best) return false;
        best = p.mean;
        return true;
      });
  }

  A.plots.sizes = function (element, width, head) {
    var drawn = head.points.filter(function (p) { return p.bytes !== null && p.mean !== null; });
    var left = 64, right = width - 24, top = 22, bottom = 310;
    if (drawn.length) {
      var least = d3.min(drawn, function (p) { return p.mean > 0 ? Math.min(p.mean, p.low > 0 ? p.low : p.mean) : null; }) || 1e-6;
      var most = d3.max(drawn, function (p) { return Math.max(p.mean, p.high || 0); }) || 1e-5;
      var low = log10(least) - 0.15, high = Math.max(log10(most) + 0.15, log10(least) + 0.6);
      var sizes = d3.extent(drawn, function (p) { return p.bytes; });
      var pad = Math.max((sizes[1] - sizes[0]) * 0.12, sizes[1] * 0.02);
      var x = d3.scale.linear().domain([Math.max(0, sizes[0] - pad), sizes[1] + pad]).range([left, right]);
      var y = d3.scale.linear().domain([low, high]).range([bottom, top]);
      var height = function (v) { return y(v > 0 ? Math.max(low, log10(v)) : low); };
      var root = A.svg(element, width, 356, "Mean KLD against size of " + drawn.length + " candidates");
      A.axisY(root, y, left, right, A.ticksLog(low, high, 6), function (t) { return A.number(Math.pow(10, t), 2); });
      A.text(root, left, 12, "mean KLD (nats)", "start");
      A.axisX(root, x, bottom, x.ticks(Math.max(2, Math.floor(width / 130))), function (t) { return bytes(t).replace(/\.0+ /, " "); }, "bytes of the weights");
      root.append("path").attr("class", "front").attr("d", d3.svg.line().interpolate("step-after")
        .x(function (p) { return x(p.bytes); }).y(function (p) { return height(p.mean); })(front(drawn)));
      drawn.forEach(function (p) {
        if (p.low === null || p.high === null) return;
        root.append("path").attr("class", "whisker")
          .attr("d", "M" + (x(p.bytes) - 4) + "," + height(p.low) + "h8m-4,0V" + height(p.high) + "m-4,0h8");
      });
      var taken = [];
      drawn.slice().sort(function (a, b) { return b.mean - a.mean; }).forEach(function (p) {
        var name = A.visible(p.label), size = name.length * 6.8, end = x(p.bytes) + 10 + size > width;
        if (name.length > 28) { name = name.slice(0, 27) + "\u2026"; size = 28 * 6.8; end = x(p.bytes) + 10 + size > width; }
        var from = end ? x(p.bytes) - 10 - size : x(p.bytes) + 10, at = height(p.mean) + 4;
        while (taken.some(function (t) { return Math.abs(t[2] - at) < 13 && t[0] < from + size && from < t[1]; })) at += 13;
        taken.push([from, from + size, at]);
        A.text(root, end ? x(p.bytes) - 10 : x(p.bytes) + 10, at, name, end ? "end" : "start", "strong");
      });
      A.telling(root.selectAll("circle.dot").data(drawn).enter().append("circle")
        .attr("class", function (p) { return p.what_if ? "dot hollow" : "dot"; }).attr("r", 5.5)
        .attr("cx", function (p) { return x(p.bytes); }).attr("cy", function (p) { return height(p.mean); }),
        function (p) {
          return A.visible(p.label) + "\n" + bytes(p.bytes) + (p.what_if ? " (what-if, no such file)" : "") + "\nmean KLD " +
            A.number(p.mean) + " nats" + (p.low === null ? "" : "\n95 % [" + A.number(p.low) + ", " + A.number(p.high) + "]");
        });
    }
    var missing = head.points.filter(function (p) { return drawn.indexOf(p) < 0; });
    if (!missing.length) return;
    var note = document.createElement("p");
    note.className = "note";
    note.textContent = "Not drawn: " + missing.map(function (p) {
      return A.visible(p.label) + " (" + (p.mean === null ? "infinite KLD" : "size unknown") + ")";
    }).join(", ");
    element.appendChild(note);
  };

  A.plots.pairs = function (element, width, head) {
    var rows = head.pairs.filter(function (p) { return p.difference !== null; }), step = 24, top = 8;
    if (!rows.length) return;
    var bottom = top + step * rows.length;
    function name(p) { return A.visible(p.a) + " \u2212 " + A.visible(p.b); }
    function kind(p) { return /^closer/.test(p.verdict) ? "closer" : /^farther/.test(p.verdict) ? "farther" : "same"; }
    var room = Math.min(0.42 * width, 14 + 7.2 * d3.max(rows, function (p) { return name(p).length; }));
    var ends = [0];
    rows.forEach(function (p) { ends.push(p.difference, p.low === null ? 0 : p.low, p.high === null ? 0 : p.high); });
    var x = d3.scale.linear().domain(ends.some(Number) ? d3.extent(ends) : [-1e-6, 1e-6]).nice().range([room, width - 24]);
    var root = A.svg(element, width, bottom + 44, "Paired differences of " + rows.length + " pairs of candidates");
    var ticks = x.ticks(Math.max(2, Math.floor((width - room) / 90)));
    root.append("g").attr("class", "grid").selectAll("line").data(ticks).enter().append("line")
      .attr("x1", x).attr("x2", x).attr("y1", top).attr("y2", bottom);
    root.append("line").attr("class", "zero").attr("x1", x(0)).attr("x2", x(0)).attr("y1", top).attr("y2", bottom);
    rows.forEach(function (p, i) {
      var y = top + step * (i + 0.5), label = name(p), fits = Math.floor((room - 12) / 7.2);
      A.text(root, room - 10, y + 4, label.length > fits ? label.slice(0, fits - 1) + "\u2026" : label, "end", "strong");
      if (p.low === null || p.high === null) return;
      root.append("path").attr("class", "whisker " + kind(p))
        .attr("d", "M" + x(p.low) + "," + (y - 4) + "v8m0,-4H" + x(p.high) + "m0,-4v8");
    });
    A.telling(root.selectAll("circle.dot").data(rows).enter().append("circle")
      .attr("class", function (p) { return "dot " + kind(p); }).attr("r", 5)
      .attr("cx", function (p) { return x(p.difference); }).attr("cy", function (p, i) { return top + step * (i + 0.5); }),
      function (p) {
        return name(p) + "\n" + A.number(p.difference) + " nats" +
          (p.low === null ? "" : "\n95 % [" + A.number(p.low) + ", " + A.number(p.high) + "]") + "\n" + A.visible(p.a) + " is " + p.verdict;
      });
    A.axisX(root, x, bottom, ticks, function (t) { return A.number(t, 3); }, "difference of mean KLD (nats)");
  };

  A.start();
})();
