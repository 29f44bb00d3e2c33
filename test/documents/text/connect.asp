<%@ Language=VBScript %>
<HTML>
<HEAD>
<title>ADO Connect Property</title>
</HEAD>

<BODY>
<h1>ADO Connect Property (RDS)</h1>

<HR>
<H3>Set Connect Property at Run Time</H3>

<% ' RDS.DataControl with no parameters set at design time %>
<OBJECT classid="clsid:BD96C556-65A3-11D0-983A-00C04FC29E33" ID=RDS HEIGHT=1 WIDTH=1></OBJECT>
<% ' Bind table to control for data display  %>
<TABLE DATASRC=#RDS>
<TBODY>
  <TR class="tbody">
    <TD><SPAN DATAFLD="FirstName"></SPAN></TD>
    <TD><SPAN DATAFLD="LastName"></SPAN></TD>
  </TR>
</TBODY>
</TABLE>
</BODY>
</HTML>
